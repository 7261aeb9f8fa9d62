// The load of a streaming server, and the server's queue: when requests arrive, how they form
// batches, and how long they wait. The caller supplies the time, so that tests can simulate it.
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

// Queueing theory predicts the waiting time of a server as M/D/1: requests arrive at random
// (Poisson), and one server takes equal time for each (Kleinrock, "Queueing Systems", vol. 1,
// 1975).

/// Returns the mean time from arrival to completion in seconds:
///   service + rho * service / (2 (1 - rho)),  rho = rate * service
/// `service` is the time for one request in seconds, and `rate` is the number of arrivals per
/// second. Returns none if rho >= 1, since the queue then grows without end.
std::optional<double> md1_total(double service, double rate);

/// The arrival of the next piece of a stream. Times are in seconds from the start.
struct Request {
  double arrival = 0;
  int64_t stream = 0;
};

/// The rule by which the requests of streams arrive.
struct Arrivals {
  std::string kind = "constant";
  double period = 1;   // seconds between the requests of a stream
  double stagger = 0;  // seconds; used by "staggered"
};

/// Returns the requests of `streams` streams before `seconds`, in the order of arrival. The same
/// seed gives the same load.
///   constant   Each stream has one request per period, from a random time in the first period on.
///   staggered  As constant, but the first times are random within `stagger`.
///   lockstep   As constant, but all streams begin at 0.
///   poisson    Requests arrive at random, one per period on average.
std::vector<Request> make_load(int64_t streams, const Arrivals& arrivals, double seconds,
                               uint64_t seed);

/// A dynamic batcher. A batch may begin as soon as `max_batch` streams have a request, or when the
/// oldest request has waited for `max_wait` seconds. A batch takes the oldest requests, at most one
/// of each stream.
class DynamicBatcher {
 public:
  DynamicBatcher(int64_t max_batch, double max_wait)
      : max_batch_(static_cast<size_t>(max_batch)), max_wait_(max_wait) {}

  /// Requests must be added in the order of their arrival.
  void add(const Request& request);
  /// Returns the time from which on a batch may begin. It is -infinity if the batch is full, and
  /// +infinity if no request waits.
  double ready_at() const;
  /// Returns the requests of the next batch, or nothing if no request waits.
  std::vector<Request> take();
  bool empty() const { return heads_.empty(); }

 private:
  size_t max_batch_;
  double max_wait_;
  std::map<int64_t, std::deque<double>> waiting_;  // arrival times, indexed by stream
  /// Arrival time of the first waiting request of each stream.
  std::set<std::pair<double, int64_t>> heads_;
};

struct LoadClock {
  virtual ~LoadClock() = default;
  virtual double now() = 0;
  virtual void wait_until(double time) = 0;
};

/// A request whose result is on the host.
struct Served {
  Request request;
  bool last = false;  // it ended its utterance
};

/// The outcome of one batch of work. It may serve its own requests or earlier ones.
struct Work {
  std::vector<Served> served;
  size_t pending = 0;  // requests that need another batch
};

struct ServedBatch {
  double begin = 0, end = 0;
  std::vector<Served> served;
};

/// Simulates or runs a server that works on one batch at a time, until all requests are served. The
/// clock tells how long work() takes. While requests are pending, the next batch begins at once,
/// even if no request waits. Stops after the first batch for which `ends` returns true.
std::vector<ServedBatch> serve(const std::vector<Request>& load, DynamicBatcher batcher,
                               LoadClock& clock,
                               const std::function<Work(const std::vector<Request>&)>& work,
                               const std::function<bool(const ServedBatch&)>& ends = nullptr);

/// Counts requests that began too late, until there are more of them than a rule allows.
class LateRequests {
 public:
  /// Among the requests that arrive at `from` or later, the share `share` may begin more than
  /// `period` seconds after its arrival.
  LateRequests(const std::vector<Request>& load, double from, double share, double period);
  /// Counts the late requests of the next batch. Returns whether there are too many, whatever
  /// follows.
  bool too_many(const ServedBatch& batch);

 private:
  double from_, period_, allowed_;
  int64_t late_ = 0;
};

/// Returns the largest number for which `within` holds, to within 5 %, or 0. If `confirm` is given,
/// it must hold too.
///
/// The search begins at `first` and multiplies by `growth` until `within` fails. Then it halves the
/// distance between the last two numbers. If `first` fails, it is divided by `growth`, then by the
/// square of that, and so on. A number that `confirm` refuses is lowered by 10 % at a time. Each
/// function is called at most once for a number.
int64_t most_within(int64_t first, double growth, const std::function<bool(int64_t)>& within,
                    const std::function<bool(int64_t)>& confirm = nullptr);

struct Percentiles {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;
};
/// Percentiles by nearest rank. For few values, p95 and p99 are the largest value. `values` must
/// not be empty.
Percentiles percentiles(const std::vector<double>& values);

/// Figures of the requests that arrived in [from, to). Latencies are in seconds.
struct LoadFigures {
  int64_t requests = 0, batches = 0;
  /// Times of a request: the work of its batch, the wait until that began, and their sum.
  Percentiles compute, queue, total;
  Percentiles last;          // `total` of requests that ended an utterance; zeros if there are none
  int64_t utterances = 0;    // utterances that these requests ended
  int64_t late = 0;          // requests whose `total` was longer than `period`
  int64_t late_starts = 0;   // requests whose `queue` was longer than `period`
  double busy = 0;           // share of the time in which a batch was in work
  double mean_batch = 0;     // mean number of requests of a batch
  double batch_seconds = 0;  // mean time of a batch
  double batch_rate = 0;     // batches per second
  double queue_slope = 0;    // growth of the queue time in seconds per second
  double served_seconds = 0;  // from `from` until the last request was served
};
LoadFigures load_figures(const std::vector<ServedBatch>& batches, double from, double to,
                         double period);

}  // namespace rtfx
