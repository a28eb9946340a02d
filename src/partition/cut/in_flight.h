// How many micro-batches a stage needs in flight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace trireme::partition {

/// 1F1B* (Beaumont, Eyraud-Dubois and Shilova 2021): the least numbers in flight, of every stage at
/// once, with which a pipeline in steady state does one micro-batch per `period`. `stages`:
/// seconds of one micro-batch, forward and backward; `links`: seconds of an output and its gradient
/// between a stage and the next, one fewer. None may exceed the period.
std::vector<int> least_in_flight(const std::vector<double>& stages,
                                 const std::vector<double>& links, double period);

/// The same from resource to resource, the last first: seconds from the begin of a forward on one
/// that takes `seconds` for a micro-batch to the end of its backward, if those further down take
/// `taken`.
double seconds_in_flight(double seconds, double taken, double period);
/// How many micro-batches begin within so many seconds.
int begun_within(double seconds, double period);

}  // namespace trireme::partition
