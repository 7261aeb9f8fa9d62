// The load of a streaming server and the server's queue: when requests arrive, how they are put
// together, what they waited. Time comes from outside, so that it can be made up.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rtfx {

// The prediction of queueing theory for a server: M/D/1, with random (Poisson) arrivals and one
// server that takes equal time for each (Kleinrock, "Queueing Systems", vol. 1, 1975). Numbers in,
// numbers out.

/// Mean time from arrival to completion. `service`: seconds for one; `rate`: arrivals per second.
///   service + rho * service / (2 (1 - rho)),  rho = rate * service
/// nullopt where rho >= 1: the queue grows without end.
std::optional<double> md1_total(double service, double rate);

/// One more piece of a stream is there. Times are in seconds from the start.
struct Request {
  double arrival = 0;
  int64_t stream = 0;
};

/// When the requests of streams arrive.
struct Arrivals {
  std::string kind = "constant";
  double period = 1;   // seconds between the requests of a stream
  double stagger = 0;  // seconds, of "staggered"
};

/// Requests of `streams` streams before `seconds`, in the order of arrival. The same seed gives the
/// same load.
///
///   constant   each stream has one per period, from a random time within the first period on
///   staggered  likewise, from a random time within `stagger` on
///   lockstep   likewise, all from 0 on
///   poisson    at random, one per period on the average
std::vector<Request> make_load(int64_t streams, const Arrivals& arrivals, double seconds,
                               uint64_t seed);

/// Dynamic batching: a batch may begin as soon as `max_batch` streams have a request, or the oldest
/// request has waited for `max_wait` seconds. It takes the oldest requests, one of a stream.
class DynamicBatcher {
 public:
  DynamicBatcher(int64_t max_batch, double max_wait)
      : max_batch_(static_cast<size_t>(max_batch)), max_wait_(max_wait) {}

  /// In the order of arrival.
  void add(const Request& request);
  /// The time from which on a batch may begin: -infinity when it is full, +infinity without any
  /// request.
  double ready_at() const;
  /// Nothing where no request waits.
  std::vector<Request> take();
  bool empty() const { return heads_.empty(); }

 private:
  size_t max_batch_;
  double max_wait_;
  std::map<int64_t, std::deque<double>> waiting_;  // arrivals by stream
  std::set<std::pair<double, int64_t>> heads_;     // the first of each stream
};

struct LoadClock {
  virtual ~LoadClock() = default;
  virtual double now() = 0;
  virtual void wait_until(double time) = 0;
};

/// A request whose result is there.
struct Served {
  Request request;
  bool last = false;  // it ended its utterance
};

/// The results of a batch of work, for these requests or for earlier ones.
struct Work {
  std::vector<Served> served;
  size_t pending = 0;  // requests that need another batch
};

struct ServedBatch {
  double begin = 0, end = 0;
  std::vector<Served> served;
};

/// A server that works on one batch at a time, until all requests are served. work() takes its time
/// on the clock. While requests are pending, the next batch begins at once, with those that wait or
/// with none. Where `ends` is true of a batch, nothing is served after it.
std::vector<ServedBatch> serve(const std::vector<Request>& load, DynamicBatcher batcher,
                               LoadClock& clock,
                               const std::function<Work(const std::vector<Request>&)>& work,
                               const std::function<bool(const ServedBatch&)>& ends = nullptr);

/// Counts requests that began too late, until they are more than a rule allows.
class LateRequests {
 public:
  /// A share of the requests that arrive from `from` on may begin later than `period` seconds after
  /// their arrival.
  LateRequests(const std::vector<Request>& load, double from, double share, double period);
  /// Counts those of the next batch. Whether there are too many, however the rest of the load goes.
  bool too_many(const ServedBatch& batch);

 private:
  double from_, period_, allowed_;
  int64_t late_ = 0;
};

/// The largest number, up to 5 %, for which `within` holds, and `confirm` where it is given; or 0.
/// From `first` on it grows by the factor `growth`, and then halves what is between. If `first`
/// does not hold, it is divided by `growth`, then by the square of that, and so on. A number that
/// is not confirmed is lowered by 10 % at a time. Each function is asked about a number once at
/// most.
int64_t most_within(int64_t first, double growth, const std::function<bool(int64_t)>& within,
                    const std::function<bool(int64_t)>& confirm = nullptr);

struct Percentiles {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;
};
/// Nearest rank; of few values p95 and p99 are the largest. Not of nothing.
Percentiles percentiles(const std::vector<double>& values);

/// Latencies in seconds of requests that arrived in [from, to).
struct LoadFigures {
  int64_t requests = 0, batches = 0;
  Percentiles compute, queue, total;  // of a request: the batch that served it, until that began,
                                      // and both
  Percentiles last;                   // `total` of requests that ended an utterance; or nothing
  int64_t utterances = 0;             // that they ended
  int64_t late = 0;                   // requests whose `total` was longer than `period`
  int64_t late_starts = 0;            // requests whose `queue` was
  double busy = 0;                    // share of the time that batches were worked on
  double mean_batch = 0;              // requests
  double batch_seconds = 0;           // mean work of a batch
  double batch_rate = 0;              // batches per second
  double queue_slope = 0;             // by how many seconds the queue time grows in a second
  double served_seconds = 0;          // from `from` until the last of them was done
};
LoadFigures load_figures(const std::vector<ServedBatch>& batches, double from, double to,
                         double period);

}  // namespace rtfx
