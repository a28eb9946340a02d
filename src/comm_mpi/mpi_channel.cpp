// SPDX-License-Identifier: Apache-2.0
#include "mpi_channel.h"

#include <exception>
#include <utility>

namespace trireme::comm {
namespace {

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(Endpoint& endpoint, MessagePtr message)
      : endpoint_(endpoint), message_(std::move(message)) {}
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;
  ~MpiTransfer() override { endpoint_.withdraw(message_); }

  bool done() override { return endpoint_.ended(*message_); }
  void wait(std::string_view what) override { endpoint_.wait(*message_, what); }

 private:
  Endpoint& endpoint_;
  MessagePtr message_;
};

}  // namespace

std::unique_ptr<Transfer> MpiChannel::send(ConstBytes data, int to, Stream stream) {
  Message message;
  message.outgoing = true;
  message.peer = to;
  message.stream = stream;
  message.data = const_cast<std::byte*>(data.data());  // only read: one field for both directions
  message.size = data.size();
  return std::make_unique<MpiTransfer>(endpoint_, endpoint_.start(std::move(message)));
}

std::unique_ptr<Transfer> MpiChannel::receive(MutableBytes data, int from, Stream stream) {
  Message message;
  message.peer = from;
  message.stream = stream;
  message.data = data.data();
  message.size = data.size();
  return std::make_unique<MpiTransfer>(endpoint_, endpoint_.start(std::move(message)));
}

void MpiChannel::abandon(std::string_view reason) noexcept {
  try {
    endpoint_.abandon({.rank = rank(), .reason = std::string(reason)});
  } catch (const std::exception&) {
    // Out of memory for the reason: the others run into their timeout.
  }
}

}  // namespace trireme::comm
