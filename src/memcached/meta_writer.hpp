#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::memcached {

// Requests of the meta protocol (memcached 1.6). Each has exactly one reply. `key` is a wire_key().

/// Asks for the item's value and CAS number.
void write_get(std::string& out, std::string_view key);

/// Stores a value if the item still has that CAS number; 0: if there is no item.
void write_store(std::string& out, std::string_view key, std::string_view value, std::uint64_t cas,
                 std::int64_t expiry);

/// Deletes the item if it still has that CAS number.
void write_delete(std::string& out, std::string_view key, std::uint64_t cas);

/// Asks for nothing.
void write_noop(std::string& out);

/// Asks for the server's settings or its figures, among them its clock. The reply has many lines.
void write_settings(std::string& out);
void write_stats(std::string& out);

}  // namespace weir::memcached
