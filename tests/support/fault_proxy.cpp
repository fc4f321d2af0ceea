#include "support/fault_proxy.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <list>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace weir::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

tcp::endpoint loopback(int port) {
  return {asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)};
}
tcp::endpoint free_port_of(const char* address) { return {asio::ip::make_address(address), 0}; }

// No digit in it: it must not pass for a part of a number.
const std::string garbage_in_replies("\0?!\xff#garbage", 12);
// A server ends the connection on this. Most other bytes it takes for a command typed by hand.
const std::string garbage_in_requests = "*?\r\n";
const std::string stray_reply = "+stray\r\n";

}  // namespace

const char* to_string(fault::kind k) noexcept {
  constexpr const char* names[fault::kinds] = {"none",    "delay", "stall",     "throttle",
                                               "cut",     "reset", "half_open", "truncate",
                                               "garbage", "stray"};
  return names[static_cast<std::size_t>(k)];
}

fault random_fault(random_source& random, std::int64_t reach) {
  fault f;
  f.what = static_cast<fault::kind>(random.between(1, fault::kinds - 1));
  f.way = random.one_in(2) ? way::requests : way::replies;
  const std::int64_t last = f.way == way::requests ? 8 * reach : reach;
  f.after = static_cast<std::size_t>(random.one_in(8) ? 0 : random.between(0, last));
  f.pause = std::chrono::microseconds(random.between(0, 5000));
  f.rate = static_cast<std::size_t>(random.between(50'000, 500'000));
  if (f.what == fault::kind::stray) f.way = way::replies;
  if (f.what == fault::kind::garbage && f.way == way::requests) f.after = 0;
  return f;
}

std::size_t fault_proxy::tally::all_faults() const {
  return std::accumulate(faults.begin(), faults.end(), std::size_t{0});
}

struct fault_proxy::core : std::enable_shared_from_this<core> {
  core(asio::io_context& io, const char* address, int target)
      : acceptor(io, free_port_of(address)), target_port(target) {}

  void accept();

  tcp::acceptor acceptor;
  int target_port;
  bool refusing = false;
  std::chrono::microseconds distance{0};
  bool closed = false;
  std::function<std::vector<fault>(std::size_t)> planned;
  tally counts;
  // Owned: one that is held up in both directions has nothing under way that would keep it.
  std::list<std::shared_ptr<link>> links;
};

/// One connection with its other half, to the server.
class fault_proxy::link : public std::enable_shared_from_this<link> {
 public:
  link(std::shared_ptr<core> owner, tcp::socket&& client)
      : owner_(std::move(owner)),
        client_(std::move(client)),
        server_(client_.get_executor()),
        halves_{half(client_, server_), half(server_, client_)} {
    client_.set_option(tcp::no_delay(true));
  }

  void open(int port, const std::vector<fault>& planned) {
    for (const fault& f : planned) of(f.way).next = f;
    server_.async_connect(loopback(port), [self = shared_from_this()](error_code ec) {
      if (ec) return self->end(true);
      self->server_.set_option(tcp::no_delay(true));
      self->connected_ = true;
      self->pump(way::requests);
      self->pump(way::replies);
    });
  }

  void strike(const fault& f) {
    of(f.way).next = f;
    if (connected_) pump(f.way);
  }

  void lift(way w) {
    if (hanging_up_) return;
    half& h = of(w);
    h.next.reset();
    h.rate = 0;
    h.stalled = false;
    h.timer.cancel();
    if (connected_) pump(w);
  }

  void end(bool abruptly) {
    if (closed_) return;
    closed_ = true;
    error_code ignored;
    for (tcp::socket* s : {&client_, &server_}) {
      if (abruptly) s->set_option(asio::socket_base::linger(true, 0), ignored);
      s->close(ignored);
    }
    for (half& h : halves_) h.timer.cancel();
  }

  bool is_open() const { return !closed_; }

 private:
  struct half {
    half(tcp::socket& source, tcp::socket& sink)
        : from(source), to(sink), timer(source.get_executor()) {}
    tcp::socket& from;
    tcp::socket& to;
    asio::steady_timer timer;
    std::optional<fault> next;
    std::array<char, 16 * 1024> room{};
    std::string held;    // taken from the sender, not passed on yet
    std::string insert;  // ours, before anything else
    std::string out;     // in the write under way
    std::size_t rate = 0;
    bool reading = false;
    bool writing = false;
    bool waiting = false;
    bool stalled = false;
    bool swallowed = false;
    bool ended = false;   // the sender has closed,
    bool broken = false;  // and not in order
  };

  half& of(way w) { return halves_[static_cast<std::size_t>(w)]; }

  void pump(way w) {
    half& h = of(w);
    while (!closed_ && !h.writing && !h.waiting && !h.stalled) {
      if (h.next && h.next->after == 0) {
        happen(w);
        continue;
      }
      if (h.swallowed) h.held.clear();
      if (!h.insert.empty()) return write(w, std::exchange(h.insert, {}));
      if (!h.held.empty()) {
        std::size_t n = h.held.size();
        if (h.next) n = std::min(n, h.next->after);
        if (h.rate != 0) n = std::min(n, std::max<std::size_t>(1, h.rate / 500));
        if (h.next) h.next->after -= n;
        std::string bytes = h.held.substr(0, n);
        h.held.erase(0, n);
        owner_->counts.bytes[static_cast<std::size_t>(w)] += n;
        return write(w, std::move(bytes));
      }
      if (h.ended) return sender_gone(w);
      if (!h.reading) read(w);
      return;
    }
  }

  /// The fault that is due.
  void happen(way w) {
    half& h = of(w);
    const fault f = *h.next;
    h.next.reset();
    ++owner_->counts.faults[static_cast<std::size_t>(f.what)];
    if (f.again != 0) {
      h.next = f;
      h.next->after = f.again;
    }
    switch (f.what) {
      case fault::kind::none:
        break;
      case fault::kind::delay:
        return wait(w, f.pause);
      case fault::kind::stall:
        h.stalled = true;
        break;
      case fault::kind::throttle:
        h.rate = f.rate;
        break;
      case fault::kind::cut:
        return hang_up();
      case fault::kind::reset:
        return end(true);
      case fault::kind::half_open:
        for (half& both : halves_) both.swallowed = true;
        break;
      case fault::kind::truncate:
        h.swallowed = true;
        break;
      case fault::kind::garbage:
        h.insert = w == way::requests ? garbage_in_requests : garbage_in_replies;
        break;
      case fault::kind::stray:
        h.insert = stray_reply;
        break;
    }
  }

  void wait(way w, std::chrono::microseconds pause) {
    half& h = of(w);
    h.waiting = true;
    h.timer.expires_after(pause);
    h.timer.async_wait([self = shared_from_this(), w](error_code) {
      self->of(w).waiting = false;
      self->pump(w);
    });
  }

  void read(way w) {
    half& h = of(w);
    h.reading = true;
    h.from.async_read_some(
        asio::buffer(h.room),
        [self = shared_from_this(), w](error_code ec, std::size_t n) { self->taken(w, ec, n); });
  }

  void taken(way w, error_code ec, std::size_t n) {
    half& h = of(w);
    std::string bytes(h.room.data(), n);
    h.reading = false;
    if (owner_->distance.count() == 0) return arrive(w, ec, bytes);
    auto travel = std::make_shared<asio::steady_timer>(client_.get_executor(), owner_->distance);
    travel->async_wait([self = shared_from_this(), w, ec, bytes, travel](error_code) {
      self->arrive(w, ec, bytes);
    });
    h.reading = ec.failed();  // nothing comes behind the end
    if (!ec && !closed_) pump(w);
  }

  void arrive(way w, error_code ec, const std::string& bytes) {
    half& h = of(w);
    if (ec) {
      h.ended = true;
      h.broken = ec != asio::error::eof;
    }
    h.held += bytes;
    pump(w);
  }

  void write(way w, std::string&& bytes) {
    half& h = of(w);
    h.writing = true;
    h.out = std::move(bytes);
    asio::async_write(h.to, asio::buffer(h.out),
                      [self = shared_from_this(), w](error_code ec, std::size_t n) {
                        half& mine = self->of(w);
                        mine.writing = false;
                        if (ec && !self->hanging_up_) return self->end(true);
                        if (ec || mine.rate == 0) return self->pump(w);
                        self->wait(w, std::chrono::microseconds(n * 1'000'000 / mine.rate));
                      });
  }

  void sender_gone(way w) {
    // Behind a link that swallows everything, the client does not learn of the server's end.
    if (w == way::replies && of(w).swallowed && !hanging_up_) return;
    if (w == way::requests || of(w).broken) return end(of(w).broken);
    hang_up();
  }

  /// The end in order: the client reads that nothing more comes, and goes. Until then its bytes are
  /// taken and dropped; closing on top of them would break the connection off.
  void hang_up() {
    hanging_up_ = true;
    error_code ignored;
    client_.shutdown(tcp::socket::shutdown_send, ignored);
    server_.close(ignored);
    of(way::replies).stalled = true;
    of(way::requests).swallowed = true;
    pump(way::requests);
  }

  std::shared_ptr<core> owner_;
  tcp::socket client_;
  tcp::socket server_;
  std::array<half, 2> halves_;
  bool connected_ = false;
  bool closed_ = false;
  bool hanging_up_ = false;
};

void fault_proxy::core::accept() {
  acceptor.async_accept([self = shared_from_this()](error_code ec, tcp::socket client) {
    if (self->closed) return;
    if (!ec) {
      const std::size_t number = self->counts.accepted++;
      if (self->refusing) {
        ++self->counts.refused;
        client.set_option(asio::socket_base::linger(true, 0), ec);
        client.close(ec);
      } else {
        auto l = std::make_shared<link>(self, std::move(client));
        self->links.remove_if([](const auto& other) { return !other->is_open(); });
        self->links.push_back(l);
        l->open(self->target_port, self->planned ? self->planned(number) : std::vector<fault>{});
      }
    }
    self->accept();
  });
}

fault_proxy::fault_proxy(asio::io_context& io, const redis_server& target, const char* address)
    : core_(std::make_shared<core>(io, address, target.port())) {
  core_->accept();
}

fault_proxy::~fault_proxy() {
  core_->closed = true;
  error_code ignored;
  core_->acceptor.close(ignored);
  for (const auto& l : core_->links) l->end(true);
  core_->links.clear();
}

int fault_proxy::port() const { return core_->acceptor.local_endpoint().port(); }

void fault_proxy::aim_at(const redis_server& target) { core_->target_port = target.port(); }

void fault_proxy::plan(std::function<std::vector<fault>(std::size_t)> for_connection) {
  core_->planned = std::move(for_connection);
}

void fault_proxy::strike(const fault& f) {
  for (const auto& l : core_->links) {
    if (l->is_open()) l->strike(f);
  }
}

void fault_proxy::set_distance(std::chrono::microseconds each_way) { core_->distance = each_way; }

void fault_proxy::refuse(bool all) { core_->refusing = all; }

void fault_proxy::lift() {
  core_->planned = nullptr;
  core_->refusing = false;
  lift(way::requests);
  lift(way::replies);
}

void fault_proxy::lift(way w) {
  for (const auto& l : core_->links) l->lift(w);
}

const fault_proxy::tally& fault_proxy::counts() const { return core_->counts; }

std::size_t fault_proxy::open_connections() const {
  const auto& links = core_->links;
  return static_cast<std::size_t>(
      std::count_if(links.begin(), links.end(), [](const auto& l) { return l->is_open(); }));
}

}  // namespace weir::test
