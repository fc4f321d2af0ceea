#include "net/sentinel_watch.hpp"

#include <boost/asio/post.hpp>
#include <random>
#include <utility>

#include "redis/options_check.hpp"

namespace weir::net {

namespace asio = boost::asio;

sentinel_watch::sentinel_watch(const strand& s, const redis_options& options, tls_context tls,
                               owner& o)
    : owner_(o),
      link_(redis::link_to_sentinel(options)),
      core_(options, std::random_device{}()),
      strand_(s),
      stream_(s, link_, std::move(tls), static_cast<stream::listener&>(*this)),
      timer_(s) {}

void sentinel_watch::ask(bool elsewhere, report r) {
  report_ = std::move(r);
  core_.ask(elsewhere, clock::now());
  advance();
}

void sentinel_watch::leave() {
  if (!report_) return;
  core_.forget();
  asio::post(strand_, [r = std::exchange(report_, nullptr), alive = owner_.keep_alive()] {
    r(error::host_unreachable, {});
  });
}

void sentinel_watch::stop() {
  core_.stop();
  timer_.cancel();
  advance();
}

void sentinel_watch::advance() {
  for (;;) {
    const core::actions a = core_.next(clock::now());
    if (a.close) stream_.close();
    if (a.open != nullptr) {
      link_.host = a.open->host;
      link_.port = a.open->port;
      stream_.open(false);
    }
    if (a.read) stream_.read(core_.room());
    if (!a.write.empty() && stream_.write(a.write)) core_.written(true, clock::now());
    if (!a.close && a.open == nullptr && !a.read && a.write.empty()) break;
  }
  arm_timer();
  // Last, because both calls may come back here.
  const auto answer = core_.take_answer();
  const bool moved = core_.take_moved();
  if (answer && report_) {
    std::exchange(report_, nullptr)(answer->failure, {answer->host, answer->port});
  }
  if (moved) owner_.master_moved();
}

void sentinel_watch::on_opened(error e) {
  core_.opened(e, clock::now());
  advance();
}

void sentinel_watch::on_received(error e, std::size_t bytes) {
  core_.received(e == error{}, bytes, clock::now());
  advance();
}

void sentinel_watch::on_written(bool ok, std::size_t) {
  core_.written(ok, clock::now());
  advance();
}

void sentinel_watch::arm_timer() {
  if (core_.wakeup() >= armed_) return;
  armed_ = core_.wakeup();
  timer_.expires_at(armed_);
  timer_.async_wait([this, alive = owner_.keep_alive()](error_code ec) {
    if (ec) return;
    armed_ = core::time::max();
    core_.on_time(clock::now());
    advance();
  });
}

}  // namespace weir::net
