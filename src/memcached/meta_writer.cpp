#include "memcached/meta_writer.hpp"

namespace weir::memcached {

void write_get(std::string& out, std::string_view key) {
  out += "mg ";
  out += key;
  out += " v c\r\n";
}

void write_store(std::string& out, std::string_view key, std::string_view value, std::uint64_t cas,
                 std::int64_t expiry) {
  out += "ms ";
  out += key;
  out += ' ';
  out += std::to_string(value.size());
  if (cas == 0) {
    out += " ME";
  } else {
    out += " C";
    out += std::to_string(cas);
  }
  out += " T";
  out += std::to_string(expiry);
  out += "\r\n";
  out += value;
  out += "\r\n";
}

void write_delete(std::string& out, std::string_view key, std::uint64_t cas) {
  out += "md ";
  out += key;
  out += " C";
  out += std::to_string(cas);
  out += "\r\n";
}

void write_noop(std::string& out) { out += "mn\r\n"; }
void write_settings(std::string& out) { out += "stats settings\r\n"; }
void write_stats(std::string& out) { out += "stats\r\n"; }

}  // namespace weir::memcached
