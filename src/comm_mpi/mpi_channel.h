// The Channel over an Endpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "endpoint.h"

#include "trireme/comm/channel.h"

#include <memory>
#include <string_view>

namespace trireme::comm {

class MpiChannel final : public Channel {
 public:
  /// The endpoint outlives the channel and its transfers.
  explicit MpiChannel(Endpoint& endpoint) : endpoint_(endpoint) {}

  int rank() const override { return endpoint_.rank(); }
  int size() const override { return endpoint_.size(); }
  std::unique_ptr<Transfer> send(ConstBytes data, int to, Stream stream) override;
  std::unique_ptr<Transfer> receive(MutableBytes data, int from, Stream stream) override;
  void abandon(std::string_view reason) noexcept override;
  void close() override { endpoint_.close(); }

 private:
  Endpoint& endpoint_;
};

}  // namespace trireme::comm
