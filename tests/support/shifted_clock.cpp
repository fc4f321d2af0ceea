#include "support/shifted_clock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace weir::test {
namespace {

constexpr std::size_t size = 2 * sizeof(long long);

}  // namespace

shifted_clock::shifted_clock() {
  path_ = (std::filesystem::temp_directory_path() / "weir-clock-XXXXXX").string();
  const int fd = ::mkstemp(path_.data());
  if (fd < 0 || ::ftruncate(fd, size) != 0) {
    throw std::system_error(errno, std::generic_category(), "shifted_clock: " + path_);
  }
  void* const shared = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (shared == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  offset_ = static_cast<long long*>(shared);
}

shifted_clock::~shifted_clock() {
  ::munmap(offset_, size);
  ::unlink(path_.c_str());
}

std::vector<std::string> shifted_clock::environment() const {
  return {"LD_PRELOAD=" WEIR_CLOCK_LIBRARY, "WEIR_CLOCK_FILE=" + path_};
}

void shifted_clock::step(std::chrono::microseconds by) {
  std::atomic_ref(*offset_).fetch_add(by.count());
}

void shifted_clock::stop_at(std::chrono::microseconds since_epoch) {
  std::atomic_ref(offset_[1]).store(since_epoch.count());
}

std::chrono::microseconds shifted_clock::shift() const {
  return std::chrono::microseconds(std::atomic_ref(*offset_).load());
}

}  // namespace weir::test
