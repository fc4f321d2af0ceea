#pragma once

#include <string>

namespace throttled {

/// Two texts in PEM form.
struct certificate {
  std::string chain;  ///< public: clients trust the vendor by it
  std::string key;
};

/// A certificate for "localhost", good for a day, that is signed by itself.
certificate make_certificate();

}  // namespace throttled
