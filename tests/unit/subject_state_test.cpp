// What the memory store keeps of a state: every kind comes back as it was put, most in two words.
#include "memory/subject_state.hpp"

#include "support/test.hpp"

namespace subject_state_test {

using weir::memory::subject_state;
namespace policies = weir::policies;

/// Puts `value`, as a kernel of its own does it.
template <class State>
void put(subject_state& in, const State& value) {
  State room;
  State& used = in.open(room);
  used = value;
  in.put(used);
}

template <class State>
State held(subject_state& in) {
  State room;
  return in.open(room);
}

/// True if the state lies on the heap: then open() gives itself, and no copy.
template <class State>
bool is_on_heap(subject_state& in) {
  State room;
  return &in.open(room) != &room;
}

template <class State>
struct sample {
  State state;
  bool on_heap;
};

constexpr policies::instant t = 1'790'000'000'123'456, most = policies::max_exact;
constexpr std::int64_t half = (std::int64_t{1} << 32) - 1;

const std::vector<sample<policies::meter::state>> buckets{
    {{}, false},
    {{.whole = most}, false},
    {{.whole = t, .part = most}, false},
    {{.whole = t, .ahead = {.written = t - 9, .turn = t - 1}}, true},
    {{.whole = t, .returned = 5, .until = t}, true},
    {{.whole = t, .until = t}, true}};
const std::vector<sample<policies::fixed_window::state>> windows{
    {{}, false},
    {{.start = t, .count = most}, false},
    {{.start = t}, false},
    {{.start = t, .count = 1, .written = t - 1}, true},
    {{.start = t, .count = 1, .start_before = t - 7}, true},
    {{.start = t, .count = 1, .count_before = 7}, true}};
const std::vector<sample<policies::sliding_window::state>> sliding_windows{
    {{}, false},
    {{.start = most, .current = half, .previous = half}, false},
    {{.start = t, .current = 1}, false},
    {{.start = t, .previous = 1}, false},
    {{.start = t, .current = half + 1}, true},
    {{.start = t, .previous = half + 1}, true},
    {{.start = t, .current = most, .previous = most}, true},
    {{.start = t, .current = 1, .written = t}, true},
    {{.start = t, .current = 1, .at_last = 1}, true}};
const std::vector<sample<policies::cool_down::state>> cool_downs{
    {{}, false}, {{.until = most, .marked_length = policies::cool_down::longest}, false}};

/// Each of them after each of them.
template <class State>
void all_come_back(const std::vector<sample<State>>& samples) {
  for (const sample<State>& first : samples) {
    for (const sample<State>& second : samples) {
      subject_state in;
      in.set_matters_until(most);
      for (const sample<State>* one : {&first, &second}) {
        put(in, one->state);
        BOOST_TEST((held<State>(in) == one->state));
        BOOST_TEST(is_on_heap<State>(in) == one->on_heap);
        BOOST_TEST(in.matters_until() == most);
      }
      subject_state moved(std::move(in));
      BOOST_TEST((held<State>(moved) == second.state));
      BOOST_TEST(moved.matters_until() == most);
      in = std::move(moved);
      BOOST_TEST((held<State>(in) == second.state));
      BOOST_TEST((held<State>(moved) == State{}));
    }
  }
}

BOOST_AUTO_TEST_SUITE(subject_state_suite)

BOOST_AUTO_TEST_CASE(a_state_comes_back_as_it_was_put) {
  all_come_back(buckets);
  all_come_back(windows);
  all_come_back(sliding_windows);
  all_come_back(cool_downs);
}

BOOST_AUTO_TEST_CASE(tiers_see_the_same_state_as_a_kernel_alone) {
  const policies::kernel kernel = policies::compile(
      weir::token_bucket{.capacity = 10, .refill = weir::per_second(1)});
  for (const sample<policies::meter::state>& one : buckets) {
    subject_state in;
    policies::any_state room, again;
    policies::any_state& used = in.open(room, kernel);
    BOOST_TEST((std::get<policies::meter::state>(used) == policies::meter::state{}));
    used = one.state;
    in.put(used);
    BOOST_TEST((held<policies::meter::state>(in) == one.state));
    BOOST_TEST((std::get<policies::meter::state>(in.open(again, kernel)) == one.state));
    BOOST_TEST((&in.open(again, kernel) != &again) == one.on_heap);
  }
}

BOOST_AUTO_TEST_CASE(a_state_of_another_kind_is_not_seen_and_is_replaced) {
  for (const auto& bucket : buckets) {
    for (const auto& window : windows) {
      subject_state in;
      put(in, bucket.state);
      BOOST_TEST((held<policies::fixed_window::state>(in) == policies::fixed_window::state{}));
      put(in, window.state);
      BOOST_TEST((held<policies::fixed_window::state>(in) == window.state));
      BOOST_TEST((held<policies::meter::state>(in) == policies::meter::state{}));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_log_is_not_copied) {
  subject_state in;
  policies::sliding_log::state room;
  in.put(in.open(room));
  policies::sliding_log::state other;
  const auto* const log = &in.open(other);
  BOOST_TEST(log != &other);
  in.put(in.open(other));
  BOOST_TEST(&in.open(other) == log);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace subject_state_test
