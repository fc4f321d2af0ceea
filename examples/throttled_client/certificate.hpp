#pragma once

#include <string>

namespace throttled {

/// Two texts in PEM form.
struct certificate {
  std::string chain;  ///< for everybody: who has it trusts the vendor
  std::string key;
};

/// A certificate for "localhost", good for a day, that is signed by itself.
certificate make_certificate();

}  // namespace throttled
