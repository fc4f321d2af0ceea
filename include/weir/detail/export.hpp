#pragma once

/// Marks what programs link. A shared library is built with hidden visibility, so everything
/// without this mark stays inside. Windows is not supported, so there is no dllexport.
#define WEIR_EXPORT __attribute__((visibility("default")))
