#pragma once

#if defined(__has_feature)
#define WEIR_TEST_CLANG_FEATURE(x) __has_feature(x)
#else
#define WEIR_TEST_CLANG_FEATURE(x) 0
#endif

namespace weir::test {

// Everything is ten times as slow under a sanitizer: some tests do less there, and all in the plain
// build.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    WEIR_TEST_CLANG_FEATURE(address_sanitizer) || WEIR_TEST_CLANG_FEATURE(thread_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

}  // namespace weir::test
