#pragma once

/// The version of these headers, for conditional compilation. CMake reads it from here.
/// Before 1.0, a minor version may change what was there; afterwards, a major version.
#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

/// One number that grows with each version: 1002003 is 1.2.3.
#define WEIR_VERSION (WEIR_VERSION_MAJOR * 1000000 + WEIR_VERSION_MINOR * 1000 + WEIR_VERSION_PATCH)

/// The same as text, such as "1.2.3".
#define WEIR_VERSION_STRING "0.1.0"
