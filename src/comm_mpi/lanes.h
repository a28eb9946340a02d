// Message transfer, on the progress thread: one lane per stream, peer and direction. Protocol, per
// stream and pair of ranks:
//
//   sender                                   receiver
//     | | receive n starts: MPI_Irecv | <---------- kReady n, bytes ---------- | (control
//     communicator) | send n: MPI_Isend, once n is ready | | ----------- kComing n -------------->
//     | (both now poll often) | ------------- the bytes ------------> |
//
// A send without its receive is only a queue entry here: it can be withdrawn, MPI does not hold its
// memory, and the sender learns of a wrong size before a byte moves. Messages of at most
// `kSmallMessage` bytes do not wait for kReady: they are copied and sent immediately.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "control_message.h"
#include "mpi_calls.h"
#include "progress_thread.h"
#include "requests.h"

#include "trireme/comm/channel.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme::comm {

inline constexpr std::size_t kSmallMessage = 4096;

/// A send or receive of this rank.
struct Message {
  enum class State { kUnderWay, kDone, kFailed, kReleased };

  // Set before the message is passed to the progress thread.
  bool outgoing = false;
  int peer = 0;
  Stream stream{};
  std::byte* data = nullptr;  ///< never written through by a send
  std::size_t size = 0;
  std::vector<std::byte> copy{};  ///< small messages: the buffer that MPI uses

  // Used by the progress thread.
  std::uint64_t sequence = 0;
  std::vector<std::uint64_t> parts{};  ///< numbers of its requests
  std::size_t parts_left = 0;          ///< requests that have not ended
  std::size_t received = 0;
  bool moving = false;  ///< large, and both sides have passed it to MPI
  std::string part_problem{};
  bool withdrawn = false;

  // Guarded by the endpoint's mutex.
  State state = State::kUnderWay;
  std::string problem{};
};
using MessagePtr = std::shared_ptr<Message>;

class Lanes {
 public:
  struct Listener {
    std::function<void(int to, const ControlMessage&)> tell;
    std::function<void(Message&, Message::State, std::string problem)> ended;
    std::function<void(int peer, Stream, bool outgoing)> given_up;
  };

  /// Messages of more than `piece` bytes travel as several MPI messages.
  Lanes(const Communicators& world, Requests& requests, std::size_t piece, Listener listener);

  void start(const MessagePtr& message);
  void peer_is_ready(int peer, const ControlMessage& ready);
  void peer_is_sending(int peer, const ControlMessage& coming);
  void sizes_differ(int peer, const ControlMessage& mismatch);
  void withdraw(const MessagePtr& message);
  /// Receives messages of streams that were given up and discards them, so that their sends end;
  /// returns whether there were any.
  bool drain();
  Pace pace() const;
  /// Whether a withdrawn transfer has not ended for a second: its peer stopped in the middle of it.
  bool is_overdue() const;

 private:
  struct Ready {
    std::uint64_t sequence = 0;
    std::size_t bytes = 0;
  };
  struct SendLane {
    std::deque<MessagePtr> queued;  ///< not passed to MPI yet
    std::deque<Ready> ready;        ///< receives whose send was not started yet
    std::uint64_t next_sequence = 0;
    bool given_up = false;
  };
  struct ReceiveLane {
    std::vector<MessagePtr> active;
    std::uint64_t next_sequence = 0;
    bool given_up = false;
  };
  struct Withdrawn {
    MessagePtr message;
    std::chrono::steady_clock::time_point since;
  };

  std::size_t lane_number(int peer, Stream stream) const;
  MPI_Comm communicator(Stream stream) const;
  void start_receive(const MessagePtr& message);
  void send_ready_ones(SendLane& lane);
  void hand_to_mpi(const MessagePtr& message);
  void set_moving(Message& message, bool moving);
  void part_ended(const MessagePtr& message, const Completion& completion, std::size_t expected);
  void conclude_send(const MessagePtr& message);
  void conclude_receive(const MessagePtr& message);
  void give_up_sends(int peer, Stream stream);
  void give_up_receives(int peer, Stream stream);

  const Communicators& world_;
  Requests& requests_;
  std::size_t piece_;
  Listener listener_;
  std::vector<SendLane> send_lanes_;
  std::vector<ReceiveLane> receive_lanes_;
  std::vector<Withdrawn> withdrawn_;
  // Totals over all lanes.
  std::size_t queued_ = 0;  ///< sends whose receive was not started yet
  std::size_t moving_ = 0;
};

}  // namespace trireme::comm
