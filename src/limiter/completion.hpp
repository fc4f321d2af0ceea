#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>

#include "check/completion_sink.hpp"
#include "waiting/sleepers.hpp"

namespace weir::detail {

/// What happens to every result on its way from a store to its caller: the limiter's failure
/// policy, the receipt, retry jitter in a cool-down, and sleep until a reservation comes.
class completion final : public completion_sink {
 public:
  explicit completion(const boost::asio::any_io_executor& executor);

  void complete(check& c) override;
  void complete(check_list&& done) override;
  void cancel(check& c, cancel_scope scope) override;
  void close() override;
  void context_shut_down() noexcept override;

 private:
  boost::asio::any_io_executor executor_;
  const std::shared_ptr<sleepers> sleepers_;
};

}  // namespace weir::detail
