#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>

#include "base/direct_executor.hpp"

namespace weir::net {

/// Runs the functions of a connection one after another, with its stream and its timers.
using strand = boost::asio::strand<detail::direct_executor>;

using timer = boost::asio::basic_waitable_timer<
    std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, strand>;

}  // namespace weir::net
