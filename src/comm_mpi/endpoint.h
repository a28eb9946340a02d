// One rank's endpoint of the MPI transport: state shared by the rank's own thread, which starts
// messages and waits here, and the progress thread, which moves them and receives control messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lanes.h"
#include "mailbox.h"
#include "mpi_calls.h"
#include "progress_thread.h"
#include "requests.h"

#include "trireme/comm/cause.h"
#include "trireme/comm/waits.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::comm {

/// Maximum time for a rank that gives up to send its cause to the others.
inline constexpr Seconds kAbandonPatience{0.2};

/// A cause as a control message.
ControlMessage word_of(const Cause& cause);

class Endpoint {
 public:
  Endpoint(const Communicators& world, ChannelOptions options, std::size_t piece);

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  void set_options(const ChannelOptions& options) { options_ = options; }

  MessagePtr start(Message message);
  bool ended(const Message& message);
  void wait(const Message& message, std::string_view what);
  /// Returns when MPI no longer uses the message's buffer.
  void withdraw(const MessagePtr& message);
  /// Sends the others the cause that this rank knows, `own` if it knows no other.
  void abandon(const Cause& own);
  /// Collective; no MPI request is left afterwards.
  void close();
  /// Stops the progress thread: no MPI call is made afterwards.
  void stop();
  /// As MpiWorld::end_job().
  [[noreturn]] void end_job(const Cause& own, const std::function<void(const Cause&)>& say);

 private:
  enum class Farewell { kNone, kClosing, kLeaving };

  // On the own thread.
  /// Returns the cause that all ranks agree on once each has given up or the time limit is over.
  Cause settle(const Cause& own);
  RankState state_of(int peer);
  std::string why_waiting(int peer);
  void throw_if_failed();  ///< under the lock
  /// Waits until `reached`, evaluated on the progress thread, holds; returns whether it did.
  bool wait_on_progress(std::function<bool()> reached, Seconds patience);
  bool all_said(Farewell farewell) const;

  // On the progress thread.
  bool poll();
  void hear(int from, const ControlMessage& message);
  void end(Message& message, Message::State state, std::string problem);
  void give_up_overdue();
  void broke(const std::exception& error);

  const Communicators world_;
  ChannelOptions options_;  // used by the own thread

  // Used by the progress thread.
  Requests requests_;
  Mailbox mailbox_;
  Lanes lanes_;
  std::function<bool()> reached_;  ///< what wait_on_progress() waits for

  std::mutex mutex_;  // guards what follows, and the state of messages
  std::condition_variable changed_;
  RankState own_state_{RankState::Kind::kBusy, 0, ""};
  Outcome outcome_;                    ///< of all ranks that gave up, this one included
  std::optional<std::string> broken_;  ///< why no MPI call is made any more
  std::optional<Cause> last_error_;    ///< from the own thread's last wait
  std::vector<bool> given_up_;         ///< per stream, peer and direction
  std::vector<Farewell> farewells_;    ///< of every rank
  std::map<std::uint64_t, RankState> answers_;
  std::uint64_t next_question_ = 0;
  std::size_t under_way_ = 0;
  bool has_reached_ = false;

  ProgressThread thread_;  // last: it uses all of the above
};

}  // namespace trireme::comm
