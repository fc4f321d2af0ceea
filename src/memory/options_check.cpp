#include "memory/options_check.hpp"

#include "text/option_range.hpp"

namespace weir::memory {

std::string fault_of(const memory_options& o) {
  const text::number_range numbers[] = {
      {"max_subjects", o.max_subjects, 1, 1'000'000'000'000},
      {"max_settled", o.max_settled, 1, 1'000'000'000},
      {"shards", o.shards, 1, 65'536},
  };
  return text::first_out_of_range(numbers);
}

}  // namespace weir::memory
