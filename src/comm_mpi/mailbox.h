// Sends and receives control messages. Progress thread only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "control_message.h"
#include "mpi_calls.h"
#include "requests.h"

#include <array>
#include <functional>
#include <optional>

namespace trireme::comm {

class Mailbox {
 public:
  using Handler = std::function<void(int from, const ControlMessage&)>;

  /// `arrived` is called from the polls of `requests`, in the order of arrival.
  Mailbox(const Communicators& world, Requests& requests, Handler arrived);
  void send(int to, const ControlMessage& message);
  void send_to_others(const ControlMessage& message);
  /// Number of messages whose send has not ended.
  std::size_t unsent() const { return unsent_; }
  /// Stops receiving: MPI_Finalize requires that no request is pending.
  void stop_receiving();

 private:
  void receive_next();

  const Communicators& world_;
  Requests& requests_;
  Handler arrived_;
  std::array<std::byte, kLargestControlMessage> incoming_{};
  std::optional<std::uint64_t> receive_;
  std::size_t unsent_ = 0;
  bool receiving_ = true;
};

}  // namespace trireme::comm
