#include "support/reservation_wire.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "policy/tier_set.hpp"
#include "redis/script/call_writer.hpp"
#include "redis/script/reply.hpp"
#include "support/command_reader.hpp"
#include "support/redis_client.hpp"
#include "support/script_names.hpp"

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

double double_at(const std::string& packed, std::size_t index) {
  double value = 0;
  std::memcpy(&value, packed.data() + index * sizeof value, sizeof value);
  return value;
}

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
          for (const std::int64_t value : constants) {
            same = same && number(arguments.at(at++)) == value;
          }
          if (same) return cost;
        }
        throw std::runtime_error("reservation_wire: constants of another policy");
      },
      kernel);
}

std::vector<redis::call_tier> tiers_of(const std::vector<policies::kernel>& kernels,
                                       std::int64_t cost) {
  std::vector<redis::call_tier> tiers;
  for (const policies::kernel& k : kernels) tiers.push_back({k, cost});
  return tiers;
}

std::size_t constants_of(const policies::kernel& kernel) {
  return std::visit([]<class K>(const K&) { return K::script_constants; }, kernel);
}

/// As a script for reservations gets it.
std::int64_t cost_in(const std::string& packed, bool has_common_path, std::int64_t max_wait,
                     const std::vector<policies::kernel>& kernels) {
  const auto ceiling = std::visit([](const auto& k) { return k.ceiling(); }, kernels.front());
  for (std::int64_t cost = 1; cost <= ceiling; ++cost) {
    std::string own;
    redis::pack_argument(own, tiers_of(kernels, cost), has_common_path, false, max_wait);
    if (own == packed) return cost;
  }
  throw std::runtime_error("reservation_wire: constants of another policy");
}

/// What the client will make of the turns of equal checks: `numbers` are as read_found() says
/// of one key, and move on behind them.
std::vector<decision> decisions_on(const std::vector<redis::call_tier>& asked, std::size_t count,
                                   std::span<const std::int64_t>& numbers, std::int64_t now,
                                   std::int64_t max_wait) {
  std::vector<policies::any_replay> states(asked.size());
  std::vector<policies::tier<policies::any_replay>> tiers;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    tiers.push_back({&asked[i].kernel, &states[i], asked[i].cost});
  }
  const std::size_t width = redis::reply_width(asked);
  const bool at_once = numbers[0] == redis::at_once;
  std::vector<decision> all;
  policies::request_time turn(now);
  for (std::size_t n = 0; n < count; ++n) {
    if (n == 0 || !at_once) {
      if (!at_once) turn = {now, numbers[0]};
      auto fields = numbers.subspan(1);
      numbers = numbers.subspan(1 + width);
      for (std::size_t i = 0; i < asked.size(); ++i) {
        std::visit(
            [&]<class K>(const K&) {
              auto& state = states[i].emplace<typename K::replay>();
              if (!K::restore(fields.first(K::reply_width), state)) {
                throw std::runtime_error("reservation_wire: a state of another kind");
              }
              fields = fields.subspan(K::reply_width);
            },
            asked[i].kernel);
      }
    }
    all.push_back(policies::reserve_at<policies::any_replay>(tiers, turn, max_wait));
  }
  return all;
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

  void execute(command words) {
    if (wire_.options_.before_command) wire_.options_.before_command();
    redis::command_writer writer = server_.writer();
    writer.begin(words.size());
    for (const std::string& word : words) writer.arg(word);
    const reply r = server_.read();

    name_script(words);
    std::string bytes;
    append(bytes, r);
    std::vector<std::pair<line*, std::size_t>> reserved;
    if (words.front() == "EVALSHA" && !r.is_error()) {
      const std::size_t script = script_index(words[1]);
      if (script == redis::settlement) {
        wire_.read_return(words, r.children.at(0).integer);
      } else {
        wire_.read_reservations(words, bytes, reserved);
      }
    }
    after_delay(down_,
                [self = shared_from_this(), bytes, reserved] { self->answer(bytes, reserved); });
  }

  void answer(const std::string& bytes,
              const std::vector<std::pair<line*, std::size_t>>& reserved) {
    const time now = std::chrono::steady_clock::now();
    wire_.replied_.emplace(number_, now);
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
  // Makes the script, which another process may ask for.
  redis::script_call call;
  call.kind = detail::check_kind::acquire;
  call.traits = detail::asks::acquire;
  for (redis::call_tier& one : tiers_of(rules.kernels, 1)) call.tiers.push_back(std::move(one));
  redis::script_of(call);
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

// The arguments are those of policy/lua/check.lua.
void reservation_wire::read_reservations(const command& words, const std::string& bytes,
                                         std::vector<std::pair<line*, std::size_t>>& reserved) {
  const script_call asked(words);
  const limiter_rules* rules = nullptr;
  std::string name;
  line_of(asked.keys.front(), rules, name);
  const std::size_t tiers = rules->kernels.size();
  const bool has_common_path = redis::list_of_script(script_index(words[1])).has_common_path;
  const std::string& packed = asked.arguments.at(0);
  // Flags stand in front of it, unless one kernel has a common path.
  const auto max_wait = static_cast<std::int64_t>(
      double_at(packed, has_common_path && tiers == 1 ? 0 : 1));
  if (max_wait < 0) return;  // these are checks
  const std::int64_t cost = cost_in(packed, has_common_path, max_wait, rules->kernels);

  std::size_t counts = 1;
  std::vector<redis::call_key> keys(asked.keys.size() / tiers);
  for (redis::call_key& key : keys) {
    const bool is_one = counts >= asked.arguments.size();
    key.count = is_one ? 1 : static_cast<std::uint32_t>(number(asked.arguments[counts++]));
  }
  redis::reply_reader reader;
  std::ranges::copy(bytes, reader.prepare(bytes.size()).begin());
  reader.commit(bytes.size());
  error_code broken;
  const redis::reply_view* const reply = reader.next(broken);
  const std::vector<redis::call_tier> of = tiers_of(rules->kernels, cost);
  std::vector<std::int64_t> numbers;
  if (reply == nullptr || !redis::read_found(of, keys, true, reply->root().text, numbers)) {
    throw std::runtime_error("reservation_wire: a reply of another kind");
  }
  const std::int64_t now = numbers.at(0);
  std::span<const std::int64_t> rest = std::span(numbers).subspan(1);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    line& l = line_of(asked.keys[i], rules, name);
    ++l.calls;
    for (const decision& d : decisions_on(of, keys[i].count, rest, now, max_wait)) {
      const std::int64_t turn = now +
                                (d.allowed ? d.delay.count() : d.retry_after.count() + max_wait);
      const std::size_t number = l.ledger.ask({now, cost, max_wait, d.allowed, turn});
      if (!d.allowed) continue;
      const auto& b = d.receipt.buckets[0];
      const std::int64_t counted = d.receipt.counted_at > 0 ? d.receipt.counted_at : turn;
      holders_[name].by_time_and_cost.emplace(std::pair(counted, cost),
                                              standing{number, {b.whole, b.part, b.returned}});
      reserved.emplace_back(&l, number);
    }
  }
}

// See settle.lua.
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
