#pragma once

// A getaddrinfo() that takes the place of the C library's for never.test, and for
// several.test and all names that end like it. It counts for the whole program, so a program
// includes this once.
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

/// The addresses of several.test and the names that end like it. A store that is gone may still
/// have a look-up under way, so they are read and set under a mutex.
class name_entry {
 public:
  void operator=(std::vector<std::string> addresses) {
    const std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  std::vector<std::string> addresses() const {
    const std::lock_guard lock(mutex_);
    return addresses_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> addresses_;
} addresses_of_name;

/// What becomes of a question before it is answered.
struct {
  std::atomic<bool> silent = false;
  std::atomic<int> asked = 0;   // for any name
  std::atomic<int> inside = 0;  // and not answered yet
  std::atomic<std::chrono::milliseconds> delay{};

  void pass() {
    silent.wait(true);
    std::this_thread::sleep_for(delay.load());
  }
  void answered() {
    --inside;
    inside.notify_all();
  }
  /// So many are asked and not answered. A look-up's thread comes here when it likes, and goes
  /// likewise.
  void wait_until_inside(int wanted) const {
    for (int n = inside; n != wanted; n = inside) inside.wait(n);
  }
  void speak_again() {
    silent = false;
    silent.notify_all();
  }
} name_server;

}  // namespace

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(
      dlsym(RTLD_NEXT, "getaddrinfo"));
  ++name_server.asked;
  // No call will ever hear of this one.
  if (node && std::string_view(node) == "never.test") std::atomic<bool>(true).wait(true);
  if (!node || !std::string_view(node).ends_with("several.test")) {
    return real(node, service, hints, result);
  }
  ++name_server.inside;
  name_server.inside.notify_all();
  const struct until_return {
    ~until_return() { name_server.answered(); }
  } counted;
  name_server.pass();
  *result = nullptr;
  // The C library frees a chain one by one, even if others have linked it.
  addrinfo** end = result;
  for (const std::string& address : addresses_of_name.addresses()) {
    if (const int failed = real(address.c_str(), service, hints, end)) return failed;
    while (*end) end = &(*end)->ai_next;
  }
  return *result ? 0 : EAI_NONAME;
}
