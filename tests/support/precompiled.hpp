#pragma once

// What nearly every test includes, parsed once for all of them. Each test still names what it uses.
#include <boost/asio.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "support/run.hpp"
#include "support/stores.hpp"
#include "weir/weir.hpp"
