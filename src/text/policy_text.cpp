// The text form of policies. What to_string() writes, parse_policy() reads.
#include <array>
#include <boost/system/system_error.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "text/duration_text.hpp"
#include "text/quoted.hpp"
#include "weir/policy.hpp"

namespace weir {
namespace {

std::string text_if(bool condition, std::string_view text) {
  return condition ? std::string(text) : std::string();
}

/// A limit and its window, as a rate.
template <class Window>
std::string window_text(std::string_view name, const Window& p) {
  const std::string rate = to_string(weir::rate{p.limit, p.window});
  const bool is_unlimited = p.limit == unlimited;
  const std::string limit = std::to_string(p.limit);
  return std::string(name) + ' ' +
         (is_unlimited ? text::units_text(p.limit) + rate.substr(limit.size()) : rate);
}

template <class Bucket>
std::string bucket_text(std::string_view name, const Bucket& p, const rate& flow) {
  return std::string(name) + ' ' + std::to_string(p.capacity) + ", " + to_string(flow);
}

std::string text_of(const fixed_window& p) {
  return window_text("fixed_window", p) + text_if(p.anchor == anchor::epoch, ", epoch") +
         text_if(p.offset.count() != 0, ", offset " + text::duration_text(p.offset)) +
         text_if(p.count_refused, ", count_refused");
}
std::string text_of(const sliding_log& p) {
  return window_text("sliding_log", p) +
         text_if(p.resolution.count() != 0, ", resolution " + text::duration_text(p.resolution)) +
         text_if(p.count_refused, ", count_refused");
}
std::string text_of(const sliding_window& p) {
  return window_text("sliding_window", p) + text_if(p.count_refused, ", count_refused");
}
std::string text_of(const token_bucket& p) { return bucket_text("token_bucket", p, p.refill); }
std::string text_of(const leaky_bucket& p) { return bucket_text("leaky_bucket", p, p.leak); }
std::string text_of(const gcra& p) {
  return "gcra " + to_string(p.rate) + text_if(p.burst != 1, ", burst " + std::to_string(p.burst));
}

/// Reads policies from a text. Its functions return nullopt if the text does not match; then the
/// reader has the position and what was expected there.
class policy_parser {
 public:
  explicit policy_parser(text::text_reader& in) noexcept : in_(in) {}

  std::optional<tiers> all() noexcept {
    static_assert(tiers::max_size == 8);
    std::array<policy, tiers::max_size> read;
    std::size_t count = 0;
    do {
      const auto next = one();
      if (!next) return std::nullopt;
      read[count++] = *next;
      in_.skip_spaces();
    } while (count < read.size() && separator());
    if (in_.end()) return tiers(std::span<const policy>(read.data(), count));
    if (count == read.size())
      return in_.fail("the end of the text, because 8 policies are the most");
    return in_.fail(is_bare_ ? "\",\", \";\" or the end of the text"
                             : "an option of the policy, in the documented order, \";\" and "
                               "another policy, or the end of the text");
  }

 private:
  /// Commas stand between rates without a name; between other policies, a comma that was forgotten
  /// or too much would make another policy.
  bool separator() noexcept {
    only_bare_ = false;
    if (in_.accept(";")) return true;
    only_bare_ = is_bare_ && in_.accept(",");
    return only_bare_;
  }

  std::optional<policy> one() noexcept {
    in_.skip_spaces();
    is_bare_ = in_.next_is_digit();
    if (is_bare_) return bare();
    if (only_bare_)
      return in_.fail("a rate such as 100/s; \";\" stands before the name of a policy");
    if (in_.accept_word("fixed_window")) return fixed();
    if (in_.accept_word("sliding_window")) return sliding();
    if (in_.accept_word("sliding_log")) return log();
    if (in_.accept_word("token_bucket")) return bucket<token_bucket>();
    if (in_.accept_word("leaky_bucket")) return bucket<leaky_bucket>();
    if (in_.accept_word("gcra")) return cell_rate();
    return in_.fail("a rate such as 100/s, or the name of a policy");
  }

  std::optional<policy> bare() noexcept {
    const auto limit = in_.rate();
    if (!limit) return std::nullopt;
    return sliding_log{.limit = limit->count, .window = limit->period};
  }

  std::optional<policy> fixed() noexcept {
    const auto limit = in_.rate(/*or_unlimited=*/true);
    if (!limit) return std::nullopt;
    fixed_window out{.limit = limit->count, .window = limit->period};
    if (option("epoch")) {
      out.anchor = anchor::epoch;
      if (option("offset") && !read(out.offset)) return std::nullopt;
    }
    out.count_refused = option("count_refused");
    return out;
  }

  std::optional<policy> log() noexcept {
    const auto limit = in_.rate(/*or_unlimited=*/true);
    if (!limit) return std::nullopt;
    sliding_log out{.limit = limit->count, .window = limit->period};
    if (option("resolution") && !read(out.resolution)) return std::nullopt;
    out.count_refused = option("count_refused");
    return out;
  }

  std::optional<policy> sliding() noexcept {
    const auto limit = in_.rate(/*or_unlimited=*/true);
    if (!limit) return std::nullopt;
    sliding_window out{.limit = limit->count, .window = limit->period};
    out.count_refused = option("count_refused");
    return out;
  }

  template <class Bucket>
  std::optional<policy> bucket() noexcept {
    in_.skip_spaces();
    const auto capacity = in_.positive_number();
    if (!capacity) return std::nullopt;
    in_.skip_spaces();
    if (!in_.accept(",")) return in_.fail("\",\" and a rate after the capacity");
    const auto flow = in_.rate();
    if (!flow) return std::nullopt;
    return Bucket{*capacity, *flow};
  }

  std::optional<policy> cell_rate() noexcept {
    const auto flow = in_.rate();
    if (!flow) return std::nullopt;
    gcra out{.rate = *flow};
    if (option("burst")) {
      in_.skip_spaces();
      const auto burst = in_.positive_number();
      if (!burst) return std::nullopt;
      out.burst = *burst;
    }
    return out;
  }

  /// Skips a comma and the word, or nothing.
  bool option(std::string_view word) noexcept {
    text::text_reader ahead = in_;
    ahead.skip_spaces();
    if (!ahead.accept(",")) return false;
    ahead.skip_spaces();
    if (!ahead.accept_word(word)) return false;
    in_ = ahead;
    return true;
  }

  bool read(duration& into) noexcept {
    in_.skip_spaces();
    if (!in_.next_is_digit()) {
      in_.fail("a duration above 0, such as 8h");
      return false;
    }
    const auto span = in_.duration();
    if (span) into = *span;
    return span.has_value();
  }

  text::text_reader& in_;
  bool is_bare_ = false;    // the last policy is a rate without a name
  bool only_bare_ = false;  // so must the next one be
};

}  // namespace

std::string to_string(const policy& p) {
  return std::visit([](const auto& one) { return text_of(one); }, p);
}

std::string to_string(const tiers& all) {
  std::string text;
  for (const policy& p : all) text.append(&p == all.begin() ? "" : "; ").append(to_string(p));
  return text;
}

tiers parse_policy(std::string_view text) {
  text::text_reader in{text};
  if (const auto parsed = policy_parser(in).all()) return *parsed;
  throw boost::system::system_error(make_error_code(error::invalid_policy),
                                    "policy " + text::quoted(text, 400) + ", at character " +
                                        std::to_string(in.position() + 1) + ": expected " +
                                        in.expected());
}

boost::system::result<tiers> try_parse_policy(std::string_view text) noexcept {
  text::text_reader in{text};
  if (const auto parsed = policy_parser(in).all()) return *parsed;
  return make_error_code(error::invalid_policy);
}

}  // namespace weir
