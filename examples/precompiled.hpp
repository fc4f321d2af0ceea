#pragma once

// What nearly every example includes, parsed once for all of them. Each still names what it uses.
#include <boost/asio.hpp>
#include <string>
#include <vector>

#include "weir/weir.hpp"
