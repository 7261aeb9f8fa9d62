#include "harness/profile/sqlite.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rtfx {
namespace {

sqlite3* opened(const std::string& name) {
  sqlite3* database = nullptr;
  sqlite3_open_v2(name.c_str(), &database, SQLITE_OPEN_READONLY, nullptr);
  return database;  // which knows of an error, too
}

}  // namespace

std::string SqliteRow::text(int column) const {
  const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return value == nullptr ? "" : value;
}

SqliteFile::SqliteFile(const std::filesystem::path& file, std::string remedy)
    : name_(file.string()), remedy_(std::move(remedy)), database_(opened(name_), sqlite3_close) {
  if (sqlite3_errcode(database_.get()) != SQLITE_OK) fail();
}

void SqliteFile::fail() const {
  throw UserError(name_, fmt::format("cannot be read: {}", sqlite3_errmsg(database_.get())),
                  remedy_);
}

bool SqliteFile::has_table(const std::string& table) const {
  bool found = false;
  query(fmt::format("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{}'", table),
        [&](const SqliteRow&) { found = true; });
  return found;
}

bool SqliteFile::has_column(const std::string& table, const std::string& column) const {
  bool found = false;
  query(fmt::format("SELECT name FROM pragma_table_info('{}')", table),
        [&](const SqliteRow& row) { found = found || row.text(0) == column; });
  return found;
}

void SqliteFile::query(const std::string& sql,
                       const std::function<void(const SqliteRow&)>& on_row) const {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &prepared, nullptr) != SQLITE_OK) fail();
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared, sqlite3_finalize);
  int result = SQLITE_ROW;
  while ((result = sqlite3_step(prepared)) == SQLITE_ROW) on_row(SqliteRow(prepared));
  if (result != SQLITE_DONE) fail();
}

}  // namespace rtfx
