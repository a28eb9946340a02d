// SPDX-License-Identifier: Apache-2.0
#include "requests.h"

#include "mpi_calls.h"

#include <algorithm>
#include <utility>

namespace trireme::comm {
namespace {

Completion read_status(MPI_Status& status, bool has_error);

}  // namespace

std::uint64_t Requests::add(MPI_Request request, Handler ended) {
  requests_.push_back(request);
  handlers_.push_back(std::move(ended));
  numbers_.push_back(next_number_);
  return next_number_++;
}

void Requests::cancel(std::uint64_t number) {
  const auto found = std::find(numbers_.begin(), numbers_.end(), number);
  if (found == numbers_.end()) return;
  check(MPI_Cancel(&requests_[static_cast<std::size_t>(found - numbers_.begin())]), "MPI_Cancel");
}

bool Requests::poll() {
  // Handlers may add requests: call none before the table is consistent again.
  std::vector<Ended> ended = take_ended();
  for (const Ended& one : ended) one.handler(one.completion);
  return !ended.empty();
}

std::vector<Requests::Ended> Requests::take_ended() {
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                indices_.data(), statuses_.data());
  const bool some_failed = code == MPI_ERR_IN_STATUS;
  if (!some_failed) check(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return {};

  std::vector<Ended> ended;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    ended.push_back({std::move(handlers_[at]),
                     read_status(statuses_[static_cast<std::size_t>(i)], some_failed)});
  }
  // From the back, so that earlier indices stay valid.
  indices_.resize(static_cast<std::size_t>(count));
  std::sort(indices_.rbegin(), indices_.rend());
  for (const int at : indices_) {
    requests_.erase(requests_.begin() + at);
    handlers_.erase(handlers_.begin() + at);
    numbers_.erase(numbers_.begin() + at);
  }
  return ended;
}

namespace {

Completion read_status(MPI_Status& status, bool has_error) {
  Completion completion;
  int cancelled = 0;
  check(MPI_Test_cancelled(&status, &cancelled), "MPI_Test_cancelled");
  completion.cancelled = cancelled != 0;
  // The field is set only when the call as a whole reported an error.
  if (has_error && status.MPI_ERROR != MPI_SUCCESS) completion.problem = mpi_text(status.MPI_ERROR);
  int bytes = 0;
  if (!completion.cancelled && completion.problem.empty())
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  completion.source = status.MPI_SOURCE;
  completion.bytes = static_cast<std::size_t>(std::max(bytes, 0));
  return completion;
}

}  // namespace
}  // namespace trireme::comm
