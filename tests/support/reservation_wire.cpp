#include "support/reservation_wire.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "policy/tier_set.hpp"
#include "redis/scripts.hpp"
#include "support/command_reader.hpp"
#include "support/redis_client.hpp"

namespace weir::test {

namespace asio = boost::asio;
using command = command_reader::command;

namespace {

std::string new_path() {
  std::string directory = (std::filesystem::temp_directory_path() / "weir-wire-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) throw std::runtime_error("mkdtemp: " + directory);
  return directory + "/socket";
}

/// As the server sent it.
void append(std::string& out, const reply& r) {
  using redis::reply_type;
  const auto line = [&](char type, const std::string& text) { out += type + text + "\r\n"; };
  const auto all = [&](char type, std::size_t count) {
    line(type, std::to_string(count));
    for (const reply& child : r.children) append(out, child);
  };
  switch (r.type) {
    case reply_type::simple_string:
      return line('+', r.text);
    case reply_type::error:
      return line('-', r.text);
    case reply_type::integer:
      return line(':', std::to_string(r.integer));
    case reply_type::null:
      return line('_', "");
    case reply_type::bulk_string:
      return line('$', std::to_string(r.text.size()) + "\r\n" + r.text);
    case reply_type::array:
      return all('*', r.children.size());
    case reply_type::map:
      return all('%', r.children.size() / 2);
    default:
      throw std::runtime_error("reservation_wire: a reply of another kind");
  }
}

std::int64_t number(const std::string& text) { return std::stoll(text); }

/// What a script was asked, taken apart.
struct script_call {
  std::vector<std::string> keys;
  std::vector<std::string> arguments;

  explicit script_call(const command& words) {
    const auto keys_end = words.begin() + 3 + number(words[2]);
    keys.assign(words.begin() + 3, keys_end);
    arguments.assign(keys_end, words.end());
  }
};

/// From the constants that a kernel's script got.
std::int64_t cost_among(const std::vector<std::string>& arguments, std::size_t place,
                        const policies::kernel& kernel) {
  return std::visit(
      [&](const auto& k) -> std::int64_t {
        for (std::int64_t cost = 1; cost <= k.ceiling(); ++cost) {
          const policies::script_arguments constants = k.arguments(cost);
          std::size_t at = place;
          bool same = true;
          for (const std::int64_t value : constants.values()) {
            same = same && number(arguments.at(at++)) == value;
          }
          if (same) return cost;
        }
        throw std::runtime_error("reservation_wire: constants of another policy");
      },
      kernel);
}

std::size_t constants_of(const policies::kernel& kernel) {
  return std::visit([]<class K>(const K&) { return K::script_constants; }, kernel);
}

std::size_t width_of(const std::vector<policies::kernel>& kernels) {
  std::size_t width = 0;
  for (const policies::kernel& k : kernels) {
    width += std::visit([]<class K>(const K&) { return K::reply_width; }, k);
  }
  return width;
}

/// What the client will make of a turn.
decision decision_on(const std::vector<policies::kernel>& kernels, std::int64_t cost,
                     std::span<const std::int64_t> fields, policies::moment turn,
                     std::int64_t max_wait) {
  std::vector<policies::any_replay> states(kernels.size());
  std::vector<policies::tier<policies::any_replay>> tiers;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    std::visit(
        [&]<class K>(const K&) {
          auto& state = states[i].emplace<typename K::replay>();
          if (!K::restore(fields.first(K::reply_width), state)) {
            throw std::runtime_error("reservation_wire: a state of another kind");
          }
          fields = fields.subspan(K::reply_width);
        },
        kernels[i]);
    tiers.push_back({&kernels[i], &states[i], cost});
  }
  return policies::reserve_at<policies::any_replay>(tiers, turn, max_wait);
}

}  // namespace

/// One client. What it sends and what it gets is delayed, each in order.
class reservation_wire::connection : public std::enable_shared_from_this<connection> {
 public:
  connection(reservation_wire& wire, asio::local::stream_protocol::socket socket,
             std::size_t number)
      : wire_(wire), socket_(std::move(socket)), number_(number), server_(wire.server_) {}

  void read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](error_code ec, std::size_t size) {
                              if (ec) return;  // what it has sent goes on
                              self->take({self->buffer_.data(), size});
                              self->read();
                            });
  }

 private:
  using time = std::chrono::steady_clock::time_point;

  void take(std::string_view bytes) {
    reader_.feed(bytes);
    while (const auto words = reader_.next()) {
      after_delay(up_, [self = shared_from_this(), words = *words] { self->execute(words); });
    }
  }

  template <class F>
  void after_delay(time& last, F f) {
    if (!wire_.options_.delay) return f();
    const time now = std::chrono::steady_clock::now();
    last = std::max(last + std::chrono::microseconds{1}, now + wire_.options_.delay());
    const auto timer = std::make_shared<asio::steady_timer>(wire_.executor_, last);
    timer->async_wait([timer, f = std::move(f)](error_code ec) {
      if (!ec) f();
    });
  }

  void execute(const command& words) {
    if (wire_.options_.before_command) wire_.options_.before_command();
    redis::command_writer writer = server_.writer();
    writer.begin(words.size());
    for (const std::string& word : words) writer.arg(word);
    const reply r = server_.read();

    std::vector<std::pair<line*, std::size_t>> reserved;
    if (words.front() == "EVALSHA" && !r.is_error()) {
      std::vector<std::int64_t> numbers;
      for (const reply& child : r.children) numbers.push_back(child.integer);
      if (words[1] == redis::scripts()[redis::reservation].sha)
        wire_.read_reservations(words, numbers, reserved);
      if (words[1] == redis::scripts()[redis::settlement].sha)
        wire_.read_return(words, numbers.at(0));
    }
    std::string bytes;
    append(bytes, r);
    after_delay(down_,
                [self = shared_from_this(), bytes, reserved] { self->answer(bytes, reserved); });
  }

  void answer(const std::string& bytes,
              const std::vector<std::pair<line*, std::size_t>>& reserved) {
    const time now = std::chrono::steady_clock::now();
    for (const auto& [line, number] : reserved) line->answers.push_back({number_, number, now});
    error_code gone;
    asio::write(socket_, asio::buffer(bytes), gone);
  }

  reservation_wire& wire_;
  asio::local::stream_protocol::socket socket_;
  const std::size_t number_;
  redis_client server_;
  command_reader reader_;
  std::array<char, 16 * 1024> buffer_{};
  time up_{}, down_{};  // when the last one arrives
};

reservation_wire::reservation_wire(const asio::any_io_executor& executor,
                                   const redis_server& server, options o)
    : executor_(executor),
      server_(server),
      options_(std::move(o)),
      path_(new_path()),
      acceptor_(executor, asio::local::stream_protocol::endpoint(path_)) {
  accept();
}

reservation_wire::~reservation_wire() {
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(path_).parent_path(), ignored);
}

void reservation_wire::accept() {
  acceptor_.async_accept([this](error_code ec, asio::local::stream_protocol::socket socket) {
    if (ec) return;
    std::make_shared<connection>(*this, std::move(socket), connections_++)->read();
    accept();
  });
}

void reservation_wire::expect(const std::string& resource, const std::vector<policy>& policies) {
  limiter_rules rules{policies, {}};
  for (const policy& p : policies) rules.kernels.push_back(policies::compile(p));
  rules_.emplace(resource, std::move(rules));
}

/// The line of the subject in a key of the form prefix:{resource:subject}:kind.
reservation_wire::line& reservation_wire::line_of(const std::string& key,
                                                  const limiter_rules*& rules, std::string& name) {
  const std::size_t begin = key.find('{') + 1;
  name = key.substr(begin, key.find('}') - begin);
  rules = &rules_.at(name.substr(0, name.find(':')));
  const auto [found, is_new] = lines_.try_emplace(name);
  if (is_new) found->second.policies = rules->policies;
  return found->second;
}

// How long to wait; the number of tiers; for each its kernel's number and constants; the numbers of
// equal checks. Replied: now; for each check its turn, and for each tier the state before. See
// policy/lua/reserve.lua.
void reservation_wire::read_reservations(const command& words,
                                         const std::vector<std::int64_t>& reply,
                                         std::vector<std::pair<line*, std::size_t>>& reserved) {
  const script_call asked(words);
  const limiter_rules* rules = nullptr;
  std::string name;
  line_of(asked.keys.front(), rules, name);
  const std::int64_t max_wait = number(asked.arguments.at(0));
  const std::int64_t cost = cost_among(asked.arguments, 3, rules->kernels.front());
  std::size_t counts = 2;
  for (const policies::kernel& k : rules->kernels) counts += 1 + constants_of(k);

  const std::size_t tiers = rules->kernels.size();
  const std::size_t width = width_of(rules->kernels);
  const std::int64_t now = reply.at(0);
  std::span<const std::int64_t> fields(reply);
  fields = fields.subspan(1);
  for (std::size_t key = 0; key < asked.keys.size(); key += tiers, ++counts) {
    line& l = line_of(asked.keys[key], rules, name);
    ++l.calls;
    const std::int64_t count = counts < asked.arguments.size() ? number(asked.arguments[counts])
                                                               : 1;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t turn = fields[0];
      const decision d = decision_on(rules->kernels, cost, fields.subspan(1, width), {now, turn},
                                     max_wait);
      fields = fields.subspan(1 + width);
      const bool allowed = turn - now <= max_wait;
      const std::size_t number = l.ledger.ask({now, cost, max_wait, allowed, turn});
      if (!allowed) continue;
      const auto& b = d.receipt.buckets[0];
      const std::int64_t counted = d.receipt.counted_at > 0 ? d.receipt.counted_at : turn;
      holders_[name].by_time_and_cost.emplace(std::pair(counted, cost),
                                              standing{number, {b.whole, b.part, b.returned}});
      reserved.emplace_back(&l, number);
    }
  }
}

// When it was counted; then as above, but for each tier what is done, too, and behind its constants
// what is known of the request. See settle.lua.
void reservation_wire::read_return(const command& words, std::int64_t now) {
  const script_call asked(words);
  const limiter_rules* rules = nullptr;
  std::string name;
  line& l = line_of(asked.keys.front(), rules, name);
  ++l.calls;
  const std::int64_t counted = number(asked.arguments.at(1));
  const std::int64_t cost = cost_among(asked.arguments, 5, rules->kernels.front());
  // What it left behind in the first bucket.
  std::size_t place = 3;
  std::array<std::int64_t, 3> left{};
  for (const policies::kernel& k : rules->kernels) {
    place += 2 + constants_of(k);
    if (left[0] == 0 && std::holds_alternative<policies::meter>(k)) {
      for (std::size_t i = 0; i < left.size(); ++i) {
        left[i] = number(asked.arguments.at(place + 1 + i));
      }
    }
    place += 1 + static_cast<std::size_t>(number(asked.arguments.at(place)));
  }
  auto& held = holders_[name].by_time_and_cost;
  // Several may have the same time and cost: only a bucket can tell them apart.
  auto [first, last] = held.equal_range({counted, cost});
  if (first == last)
    throw std::runtime_error("reservation_wire: given back twice, or never reserved");
  const auto own = std::find_if(first, last, [&](const auto& h) { return h.second.left == left; });
  if (own == last) throw std::runtime_error("reservation_wire: given back with another receipt");
  l.ledger.give_back(now, own->second.number);
  held.erase(own);
}

}  // namespace weir::test
