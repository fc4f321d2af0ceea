#include "net/pipeline.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

namespace weir::net {
namespace {

using detail::check;
using detail::check_list;
using detail::check_stage;

constexpr std::uint8_t max_resends = 2;
constexpr std::chrono::hours max_timeout{24};  // far from where time points overflow
const std::string nothing;

}  // namespace

void pipeline::finish(check& c) {
  c.line.unlink();
  deadline_wheel::remove(c);
  c.stage = check_stage::done;
  --pending_;
  done_.push_back(c);
}

void pipeline::finish_all(check_list& list, error e) {
  while (!list.empty()) finish(list.front(), e);
}

void pipeline::submit(check& c, time now) {
  ++pending_;
  if (refusal_ != error{}) return finish(c, refusal_);
  if (pending_ > options_.max_pending) return finish(c, error::overloaded);
  const auto timeout = c.timeout.count() != 0 ? c.timeout : options_.timeout;
  c.deadline = now + std::min<std::chrono::microseconds>(timeout, max_timeout);
  c.stage = check_stage::waiting;
  waiting_.push_back(c);
  wheel_.add(c);
}

void pipeline::cancel(check& c, detail::cancel_scope scope) {
  if (c.stage == check_stage::done || c.stage == check_stage::idle) return;
  if (scope == detail::cancel_scope::only_unsent && c.stage != check_stage::waiting) return;
  c.ec = boost::asio::error::operation_aborted;
  finish(c);
}

void pipeline::expire(time now) {
  wheel_.expire(now, [this](check& c) {
    finish(c, c.stage == check_stage::waiting ? error::timed_out : error::no_reply);
  });
}

void pipeline::connected() {
  connected_ = true;
  if (!closed_) refusal_ = {};
  missing_scripts_.reset();
}

void pipeline::refused(error reason) {
  refusal_ = reason;
  finish_all(again_, reason);
  finish_all(waiting_, reason);
}

void pipeline::disconnected(error reason, std::size_t sent) {
  connected_ = false;
  while (!calls_.empty()) {
    redis::call c = std::move(calls_.front());
    calls_.pop_front();
    const bool in_write = calls_.size() < staged_;
    if (in_write) --staged_;
    if (in_write && c.end > sent) {
      // The server cannot have seen all of it, so it cannot have run.
      requeue(c);
    } else {
      for (redis::call_key& key : c.keys) finish_all(key.checks, reason);
    }
  }
  writing_ = false;
}

/// Back to the front of the line, behind what came back before.
void pipeline::requeue(redis::call& c) {
  for (redis::call_key& key : c.keys) {
    for (check& waiting : key.checks) waiting.stage = check_stage::waiting;
    again_.splice(again_.end(), key.checks);
  }
}

void pipeline::load_missing_scripts() {
  for (std::size_t i = 0; i < redis::script_count; ++i) {
    if (!missing_scripts_[i]) continue;
    redis::write_load(out_, i);
    calls_.emplace_back().end = out_.size();
    ++staged_;
  }
  missing_scripts_.reset();
}

void pipeline::stage(redis::call&& c) {
  redis::write_call(out_, c, scratch_);
  c.end = out_.size();
  for (redis::call_key& key : c.keys) {
    for (check& waiting : key.checks) waiting.stage = check_stage::staged;
  }
  calls_.push_back(std::move(c));
  ++staged_;
}

const std::string& pipeline::next_write() {
  if (!wants_write()) return nothing;
  again_.splice(again_.end(), waiting_);
  out_.clear();
  load_missing_scripts();
  for (redis::call& c : coalescer_.pack(again_)) stage(std::move(c));
  writing_ = true;
  return out_;
}

void pipeline::write_done() {
  // Replies to the last calls may have come before the write was reported done.
  const std::size_t still_due = std::min(staged_, calls_.size());
  for (auto it = calls_.end() - static_cast<std::ptrdiff_t>(still_due); it != calls_.end(); ++it) {
    for (redis::call_key& key : it->keys) {
      for (check& waiting : key.checks) waiting.stage = check_stage::written;
    }
  }
  staged_ = 0;
  writing_ = false;
}

void pipeline::answer(redis::call& c, const redis::reply_view& reply) {
  if (redis::read_reply(c, reply, numbers_) == redis::reply_outcome::script_missing) {
    missing_scripts_.set(c.limiter->kernel.index());
    for (redis::call_key& key : c.keys) {
      for (auto it = key.checks.begin(); it != key.checks.end();) {
        check& waiting = *it++;
        if (++waiting.resends > max_resends) finish(waiting, error::script_missing);
      }
    }
    requeue(c);
    return;
  }
  for (redis::call_key& key : c.keys) {
    while (!key.checks.empty()) finish(key.checks.front());
  }
}

bool pipeline::consume(redis::reply_reader& reader) {
  error_code ec;
  while (const redis::reply_view* reply = reader.next(ec)) {
    if (reply->is_push()) continue;
    if (calls_.empty()) return false;  // nobody asked
    answer(calls_.front(), *reply);
    calls_.pop_front();
    if (staged_ > calls_.size()) staged_ = calls_.size();
  }
  return !ec;
}

void pipeline::close() {
  closed_ = true;
  refused(error::store_closed);
  for (redis::call& c : calls_) {
    for (redis::call_key& key : c.keys) finish_all(key.checks, error::outcome_unknown);
  }
}

check_list pipeline::take_done() {
  check_list taken;
  taken.swap(done_);
  return taken;
}

check_list pipeline::abandon() {
  close();
  return take_done();
}

}  // namespace weir::net
