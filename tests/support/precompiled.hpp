#pragma once

// What nearly every test includes, parsed once for all of them.
#include "support/run.hpp"
#include "support/stores.hpp"
