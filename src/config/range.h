// Allowed values of the fields of a job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace trireme::config {

/// From `least` to `most`, both included. Whole numbers in it are exact up to 2^53.
struct Range {
  double least;
  double most;
};

/// One of these words, or one of these numbers.
using OneOf = std::vector<std::string>;

}  // namespace trireme::config
