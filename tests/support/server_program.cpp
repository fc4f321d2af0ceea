#include "support/server_program.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace weir::test {
namespace {

/// Empty if there is none.
std::string found_in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/usr/local/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

}  // namespace

std::string server_program(const char* variable, std::initializer_list<const char*> names) {
  const char* const named = std::getenv(variable);
  if (named != nullptr && std::string(named).find('/') != std::string::npos) return named;
  std::vector<std::string> candidates(names.begin(), names.end());
  if (named != nullptr) candidates = {named};
  for (const std::string& name : candidates) {
    if (std::string found = found_in_path(name); !found.empty()) return found;
  }
  throw std::runtime_error(
      "no " + candidates.front() +
      " in PATH: these tests need a real one. Run scripts/test, which installs it or prints the "
      "command; or name one in " +
      variable);
}

}  // namespace weir::test
