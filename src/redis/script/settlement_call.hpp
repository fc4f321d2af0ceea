#pragma once

#include <string>
#include <vector>

#include "redis/script/script_call.hpp"

/// Calls to the script that gives back, charges or lowers (policy/lua/settle.lua). Each has one
/// check.
namespace weir::redis {

settlement_terms settlement_terms_of(const detail::check& c);

void write_settlement(std::string& out, const script_call& c, std::string& scratch);

/// False if the reply is not well-formed.
bool read_settlement(script_call& c, const reply_view& reply, std::vector<std::int64_t>& numbers);

}  // namespace weir::redis
