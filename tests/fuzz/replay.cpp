// replay <target> <file or folder>...: runs a fuzz target over its seed corpus and over what once
// crashed it, as ordinary tests.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

// WEIR_TARGETS is TARGET(resp) TARGET(url) ..., and each target's function is called replay_<name>.
#define TARGET(name) extern "C" int replay_##name(const std::uint8_t* data, std::size_t size);
WEIR_TARGETS
#undef TARGET

namespace {

struct target {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
};

#define TARGET(name) {#name, replay_##name},
constexpr target targets[] = {WEIR_TARGETS};
#undef TARGET

}  // namespace

int main(int argc, char** argv) {
  std::size_t inputs = 0;
  for (const target& t : targets) {
    if (argc < 2 || std::strcmp(argv[1], t.name) != 0) continue;
    for (int i = 2; i < argc; ++i) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
        if (!entry.is_regular_file()) continue;
        std::ifstream file(entry.path(), std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        std::fprintf(stderr, "%s\n", entry.path().filename().c_str());
        t.run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
        ++inputs;
      }
    }
  }
  std::printf("%zu inputs replayed\n", inputs);
  return inputs == 0 ? 1 : 0;
}
