// Reading SQLite files.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace rtfx {

/// A row of a query's result, while it is looked at. Columns from 0; NULL reads as 0 or "".
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const;
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  sqlite3_stmt* statement_;
};

/// A file, opened to be read. Errors are UserErrors that name it.
class SqliteFile {
 public:
  /// `remedy`: what to do about a file that is none.
  SqliteFile(const std::filesystem::path& file, std::string remedy);

  bool has_table(const std::string& table) const;
  bool has_column(const std::string& table, const std::string& column) const;
  void query(const std::string& sql, const std::function<void(const SqliteRow&)>& on_row) const;

 private:
  [[noreturn]] void fail() const;

  std::string name_, remedy_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_;
};

}  // namespace rtfx
