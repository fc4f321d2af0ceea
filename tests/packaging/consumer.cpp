// The user of the installed library, as small as it gets.
#include <weir/weir.hpp>

int main() {
  // Compiled code must link, not only headers be found.
  return weir::rate::parse("100/s") == weir::per_second(100) ? 0 : 1;
}
