#pragma once

#include "fuzz_input.hpp"

#define WEIR_TEST_REQUIRE(condition) weir::fuzz::require(condition)
#include "unit/wire.hpp"
