// The bytes of a gzip file, made in memory.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace rtfx::test {

inline std::string gzip(const std::string& text) {
  std::string packed(text.size() + (1 << 16), '\0');
  size_t used = 0;
  const std::unique_ptr<archive, decltype(&archive_write_free)> writer(archive_write_new(),
                                                                       &archive_write_free);
  archive_write_add_filter_gzip(writer.get());
  archive_write_set_format_raw(writer.get());
  archive_write_set_bytes_per_block(writer.get(), 1);  // no padding
  archive_write_open_memory(writer.get(), packed.data(), packed.size(), &used);
  const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                            &archive_entry_free);
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_write_header(writer.get(), entry.get());
  archive_write_data(writer.get(), text.data(), text.size());
  if (archive_write_close(writer.get()) != ARCHIVE_OK) throw std::runtime_error("gzip failed");
  packed.resize(used);
  return packed;
}

}  // namespace rtfx::test
