// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/local.h"

#include "exchange.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace trireme::comm {
namespace {

class LocalTransfer final : public Transfer {
 public:
  LocalTransfer(std::shared_ptr<Exchange> exchange, std::shared_ptr<LocalMessage> message)
      : exchange_(std::move(exchange)), message_(std::move(message)) {}
  LocalTransfer(const LocalTransfer&) = delete;
  LocalTransfer& operator=(const LocalTransfer&) = delete;
  ~LocalTransfer() override { exchange_->withdraw(message_); }

  bool done() override { return exchange_->ended(*message_); }
  void wait(std::string_view what) override { exchange_->wait(*message_, what); }

 private:
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<LocalMessage> message_;
};

class LocalChannel final : public Channel {
 public:
  LocalChannel(std::shared_ptr<Exchange> exchange, int rank)
      : exchange_(std::move(exchange)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return exchange_->size(); }

  std::unique_ptr<Transfer> send(ConstBytes data, int to, Stream stream) override {
    // A send's data is only read; one pointer serves both directions.
    return start(
        {rank_, to, true, stream, const_cast<std::byte*>(data.data()), data.size(), {}, {}});
  }
  std::unique_ptr<Transfer> receive(MutableBytes data, int from, Stream stream) override {
    return start({rank_, from, false, stream, data.data(), data.size(), {}, {}});
  }
  void abandon(std::string_view reason) noexcept override {
    try {
      exchange_->fail({.rank = rank_, .reason = std::string(reason)});
    } catch (const std::exception&) {
      // No memory for the reason: the others run into their timeout.
    }
  }
  void close() override { exchange_->close(rank_); }

 private:
  std::unique_ptr<Transfer> start(LocalMessage message) {
    ensure(message.peer >= 0 && message.peer < size(),
           concat("rank ", message.peer, " is one of ", size()));
    auto shared = std::make_shared<LocalMessage>(std::move(message));
    exchange_->start(shared);
    return std::make_unique<LocalTransfer>(exchange_, std::move(shared));
  }

  std::shared_ptr<Exchange> exchange_;
  int rank_;
};

/// The error that the run ends with: the root cause; null after a successful run.
std::exception_ptr error_of(const std::vector<std::exception_ptr>& errors,
                            const std::optional<Cause>& cause);

}  // namespace

void run_local(int ranks, const ChannelOptions& options,
               const std::function<void(Channel&)>& body) {
  ensure(ranks > 0, "a transport has at least one rank");
  const auto exchange = std::make_shared<Exchange>(ranks, options);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  const auto give_up = [&](const Cause& cause) {
    errors[static_cast<std::size_t>(cause.rank)] = std::current_exception();
    exchange->fail(cause);
  };
  const auto run_rank = [&](int rank) {
    try {
      LocalChannel channel(exchange, rank);
      body(channel);
    } catch (const std::exception& error) {
      give_up(cause_of(rank, error));
    } catch (...) {
      give_up({.rank = rank, .reason = "an exception of unknown type"});
    }
    exchange->leave(rank);
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
      run_rank(0);
    } catch (const std::exception& error) {
      give_up(cause_of(0, error));  // no more threads; the started ones end at their next wait
    }
  }
  if (const auto error = error_of(errors, exchange->cause())) std::rethrow_exception(error);
}

namespace {

std::exception_ptr error_of(const std::vector<std::exception_ptr>& errors,
                            const std::optional<Cause>& cause) {
  if (cause && errors[static_cast<std::size_t>(cause->rank)])
    return errors[static_cast<std::size_t>(cause->rank)];
  const auto found = std::find_if(errors.begin(), errors.end(),
                                  [](const auto& error) { return error != nullptr; });
  return found == errors.end() ? nullptr : *found;
}

}  // namespace
}  // namespace trireme::comm
