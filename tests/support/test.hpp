#pragma once

// What nearly every test needs: Boost.Test, the plain parts of the standard library, and names that
// stand for the same thing everywhere. Other headers each test names itself.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace boost::asio {}

namespace weir::test {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace weir::test
