// Preloaded into a server (see shifted_clock.hpp): the system's time, shifted by what a file in
// shared memory says, or stopped. It asks the kernel itself and allocates nothing, so it works from
// the first instruction on.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

// Not <time.h>: it declares what is defined here.
struct seconds_and_nanoseconds {
  long seconds;
  long nanoseconds;
};
struct seconds_and_microseconds {
  long seconds;
  long microseconds;
};

constexpr int realtime = 0;
constexpr int realtime_coarse = 5;

const long long* offset = nullptr;

__attribute__((constructor)) void open_offset() {
  const char* const path = getenv("WEIR_CLOCK_FILE");
  const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void* const shared = mmap(nullptr, 2 * sizeof(long long), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (shared != MAP_FAILED) offset = static_cast<const long long*>(shared);
}

int read_clock(int clock, seconds_and_nanoseconds* out) {
  const long failed = syscall(SYS_clock_gettime, clock, out);
  if (failed != 0 || offset == nullptr) return static_cast<int>(failed);
  if (clock != realtime && clock != realtime_coarse) return 0;
  const long long by = __atomic_load_n(offset, __ATOMIC_RELAXED);
  const long long still = __atomic_load_n(offset + 1, __ATOMIC_RELAXED);
  const long long micros = still ? still
                                 : out->seconds * 1'000'000LL + out->nanoseconds / 1000 + by;
  out->seconds = micros / 1'000'000;
  out->nanoseconds = micros % 1'000'000 * 1000;
  return 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int clock_gettime(int clock, seconds_and_nanoseconds* out) {
  return read_clock(clock, out);
}

__attribute__((visibility("default"))) int gettimeofday(seconds_and_microseconds* out, void*) {
  seconds_and_nanoseconds now{};
  const int failed = read_clock(realtime, &now);
  if (failed == 0 && out) *out = {now.seconds, now.nanoseconds / 1000};
  return failed;
}

__attribute__((visibility("default"))) long time(long* out) {
  seconds_and_nanoseconds now{};
  read_clock(realtime, &now);
  if (out) *out = now.seconds;
  return now.seconds;
}

}  // extern "C"
