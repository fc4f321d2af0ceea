// Lines that the same claim refused: which of them asks, and when.
#include "lines/asking_order.hpp"

#include "line_fixture.hpp"

namespace {

using namespace std::chrono_literals;
using weir::decision;
using weir::error;
using weir::sliding_window;
using weir::test::line_stage;

/// Some lines of one limiter, at one time.
class lines {
 public:
  explicit lines(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      stages_.push_back(
          i == 0 ? std::make_unique<line_stage>(line_stage::manner(), total)
                 : std::make_unique<line_stage>(*stages_[0], line_stage::manner(), total));
      members_.emplace_back().asking = static_cast<weir::detail::asking_line*>(
          stages_[i]->line.get());
    }
  }

  line_stage& operator[](std::size_t i) { return *stages_[i]; }

  /// What happened in one is noted, with what follows from that.
  void note(std::size_t i) {
    std::vector<weir::detail::asking_order::member*> released;
    order_.note(members_[i], released);
    for (std::size_t n = 0; n < released.size(); ++n) {
      const auto which = static_cast<std::size_t>(released[n] - members_.data());
      stages_[which]->wait(0us);
      order_.note(*released[n], released);
    }
  }
  void wait(std::chrono::microseconds span) {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      stages_[i]->wait(span);
      note(i);
    }
  }
  /// Somebody comes to each, and is refused for a second.
  void shut() {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      stages_[i]->arrive();
      note(i);
      stages_[i]->refuse(0, 1s);
      note(i);
    }
    asking();
  }
  /// Those that have asked since the last time.
  weir::test::numbers asking() {
    weir::test::numbers all;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (!stages_[i]->asked().empty()) all.push_back(i);
    }
    return all;
  }

 private:
  static constexpr sliding_window total{.limit = 100, .window = 10s};

  std::vector<std::unique_ptr<line_stage>> stages_;
  std::vector<weir::detail::asking_order::member> members_;
  weir::detail::asking_order order_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(asking_order_suite)

BOOST_AUTO_TEST_CASE(the_first_asks_and_after_each_that_passes_twice_as_many) {
  lines l(6);
  l.shut();
  l.wait(1s);
  WEIR_TEST_NUMBERS(l.asking(), {0});
  l[0].pass(1, 50);
  l.note(0);
  WEIR_TEST_NUMBERS(l.asking(), {1, 2});
  l[1].pass(1, 49);
  l.note(1);
  WEIR_TEST_NUMBERS(l.asking(), {3, 4, 5});
  // Until one is refused.
  l[2].refuse(1, 100ms);
  l.note(2);
  l[3].refuse(1, 100ms);
  l.note(3);
  l.wait(100ms);
  WEIR_TEST_NUMBERS(l.asking(), {2});
}

BOOST_AUTO_TEST_CASE(who_is_refused_in_vain_asks_again_and_goes_by_what_was_said_last) {
  lines l(2);
  l.shut();
  l.wait(1s);
  l.asking();
  l[0].refuse(1, 3s);
  l.note(0);
  l.wait(3s - 1us);
  WEIR_TEST_NUMBERS(l.asking(), {});
  l.wait(1us);
  WEIR_TEST_NUMBERS(l.asking(), {0});
}

// The second had its own refusal, from before, and asked in vain.
BOOST_AUTO_TEST_CASE(who_passed_stands_behind_and_the_next_knows_what_it_heard) {
  lines l(2);
  l.shut();
  l[0].arrive();
  l.note(0);
  l.wait(1s);
  WEIR_TEST_NUMBERS(l.asking(), {0});
  l[0].pass(1, 0);
  l[0].refuse(2, 300ms);
  l.note(0);
  WEIR_TEST_NUMBERS(l.asking(), {});
  l.wait(300ms - 1us);
  WEIR_TEST_NUMBERS(l.asking(), {});
  l.wait(1us);
  WEIR_TEST_NUMBERS(l.asking(), {1});
}

BOOST_AUTO_TEST_CASE(a_store_that_fails_is_asked_for_all) {
  for (const bool answers : {true, false}) {
    lines l(5);
    l.shut();
    l.wait(1s);
    l.asking();
    if (answers) {
      decision local;
      local.source = weir::source::fallback;
      local.retry_after = 1s;
      l[0].answer(1, local);
    } else {
      l[0].fail(1, error::no_reply);
    }
    l.note(0);
    WEIR_TEST_NUMBERS(l.asking(), {1, 2, 3, 4});
  }
}

BOOST_AUTO_TEST_CASE(who_holds_back_is_refused_when_its_patience_ends) {
  lines l(2);
  l.shut();
  l[1].arrive(0, 2s);
  l.note(1);
  l.wait(2s);  // the first has asked, and has no answer
  WEIR_TEST_NUMBERS(l[1].told(), {1});
  const decision& d = l[1].answer_of(1);
  // Its second is over. One becomes free in 100 ms.
  BOOST_TEST((!l[1].error_of(1) && !d.allowed && d.retry_after == 100ms));
}

BOOST_AUTO_TEST_SUITE_END()
