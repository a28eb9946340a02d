// Pending MPI requests and their completion handlers. Progress thread only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme::comm {

/// How a request ended.
struct Completion {
  int source = 0;  ///< of a receive only, like `bytes`
  std::size_t bytes = 0;
  bool cancelled = false;
  std::string problem;  ///< MPI's error text, empty on success
};

class Requests {
 public:
  using Handler = std::function<void(const Completion&)>;

  /// Takes ownership of the request; `ended` is called from a later poll(). Returns the number that
  /// cancel() takes.
  std::uint64_t add(MPI_Request request, Handler ended);
  /// Requests cancellation of a receive; its handler is still called, whichever way it ends.
  void cancel(std::uint64_t number);
  /// Lets MPI make progress and calls the handlers of ended requests; returns whether there were
  /// any.
  bool poll();
  std::size_t under_way() const { return requests_.size(); }

 private:
  struct Ended {
    Handler handler;
    Completion completion;
  };
  std::vector<Ended> take_ended();

  // One entry per request in each.
  std::vector<MPI_Request> requests_;
  std::vector<Handler> handlers_;
  std::vector<std::uint64_t> numbers_;
  // Scratch of poll().
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::uint64_t next_number_ = 0;
};

}  // namespace trireme::comm
