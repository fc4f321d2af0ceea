#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "weir/limiter.hpp"

namespace weir::bench {

/// Awaits acquire() in a loop, and hands each decision on. In a unit of its own: beside record(),
/// the compiler would inline less of Asio into both loops, and each check would cost more.
boost::asio::awaitable<void> acquire_for_ever(limiter from, std::string subject,
                                              std::function<void(const decision&)> note);

}  // namespace weir::bench
