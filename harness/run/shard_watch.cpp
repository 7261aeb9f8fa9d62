#include "harness/run/shard_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

namespace rtfx {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kToAnswer{10}, kToRetry{1};

// The messages of a connection, each ended by a zero byte: a shard sends "TOKEN LABEL END", where
// END is its end_of_this_process(), and shard 0 answers with its own. Then the shard asks to be
// watched and says last that it is done. Shard 0 says the cause of an early end.
const std::string kWatch = "watch", kDone = "done";

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

void send_message(int socket, const std::string& text) {
  std::string_view left(text.c_str(), text.size() + 1);
  while (!left.empty()) {
    const ssize_t sent = send(socket, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // the other one has gone, or has not read for long
    left.remove_prefix(static_cast<size_t>(sent));
  }
}

/// The state of a connection by recv(2).
enum class Connection { open, closed };

/// Adds what has come. Only an end by the other side closes a connection.
Connection receive(int socket, std::string& received) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) {
      received.append(buffer.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno == ECONNRESET) {
      return Connection::closed;
    } else if (errno != EINTR) {
      return Connection::open;
    }
  }
}

/// The next whole message; none where it has not come yet.
std::optional<std::string> take_message(std::string& received) {
  const size_t end = received.find('\0');
  if (end == std::string::npos) return std::nullopt;
  std::string message = received.substr(0, end);
  received.erase(0, end + 1);
  return message;
}

/// Waits until the socket can be read or written. False when the time is over.
bool wait_for(int socket, short events, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd entry = {socket, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// A socket that listens on all addresses of this host; -1 where the protocol is not there.
int listener_of(int family) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const int off = 0;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  if (family == AF_INET6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto* address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&six)
                                           : reinterpret_cast<const sockaddr*>(&four);
  const socklen_t size = family == AF_INET6 ? sizeof six : sizeof four;
  if (bind(socket, address, size) == 0 && listen(socket, SOMAXCONN) == 0) return socket;
  const int error = errno;
  close(socket);
  errno = error;
  return -1;
}

uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) fail("getsockname");
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

/// A connection to one of the host's addresses; -1 where none takes it.
int connection_to(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int socket = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) continue;
    int error = connect(socket, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && wait_for(socket, POLLOUT, Clock::now() + kToAnswer)) {
      socklen_t size = sizeof error;
      getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return socket;
    close(socket);
  }
  return -1;
}

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

std::string end_of_this_process(const Shard& shard) {
  return fmt::format("shard {} has ended: its process {} on {} is gone", shard.label(), getpid(),
                     host_name());
}

std::string WatchAddress::text() const { return fmt::format("{} {} {}", token, port, host); }

WatchAddress WatchAddress::read(const std::string& text) {
  WatchAddress address;
  std::istringstream(text) >> address.token >> address.port >> address.host;
  return address;
}

struct ShardWatch::State {
  struct Peer {
    int socket;
    std::string received, label, end;  // `end`: what to say when it has ended
    bool watched = false, done = false;
  };

  WatchAddress address;
  std::string own_end;
  OnEnd on_end;
  int listener = -1, stop = -1;
  std::mutex mutex;  // guards peers, which the thread alone adds and removes
  std::vector<Peer> peers;
  std::thread thread;

  void tell(const std::string& cause) {
    const std::scoped_lock lock(mutex);
    for (const Peer& peer : peers)
      if (!peer.end.empty()) send_message(peer.socket, cause);
  }

  /// False when the watch ends.
  bool wait() {
    std::vector<pollfd> entries = {{stop, POLLIN, 0}, {listener, POLLIN, 0}};
    for (const Peer& peer : peers) entries.push_back({peer.socket, POLLIN, 0});
    while (poll(entries.data(), entries.size(), -1) < 0)
      if (errno != EINTR) return false;
    return entries.front().revents == 0;
  }

  void accept_peers() {
    for (;;) {
      const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (socket < 0) {
        // The connection stays in the queue, so the next poll(2) would not wait for it.
        if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kToRetry);
        return;
      }
      const std::scoped_lock lock(mutex);
      peers.push_back({.socket = socket, .received = {}, .label = {}, .end = {}});
    }
  }

  /// Takes the messages of a connection. False where it is to be closed.
  bool serve(Peer& peer) const {
    const Connection connection = receive(peer.socket, peer.received);
    while (const auto message = take_message(peer.received)) {
      if (peer.end.empty()) {
        std::istringstream words(*message);
        std::string token;
        words >> token >> peer.label >> std::ws;
        std::getline(words, peer.end);
        if (token != address.token || peer.end.empty()) return false;  // no shard of this run
        send_message(peer.socket, own_end);
      } else if (*message == kWatch) {
        peer.watched = true;
      } else if (*message == kDone) {
        peer.done = true;
      }
    }
    return connection == Connection::open;
  }

  void run() {
    while (wait()) {
      accept_peers();
      std::vector<Peer> ended;
      {
        const std::scoped_lock lock(mutex);
        std::erase_if(peers, [&](Peer& peer) {
          if (serve(peer)) return false;
          if (peer.watched && !peer.done) ended.push_back(peer);
          close(peer.socket);
          return true;
        });
      }
      for (const Peer& peer : ended) tell(on_end(peer.label, peer.end));
    }
  }
};

ShardWatch::ShardWatch(const Shard& shard, OnEnd on_end) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.own_end = end_of_this_process(shard);
  state.on_end = std::move(on_end);
  state.listener = listener_of(AF_INET6);
  if (state.listener < 0) state.listener = listener_of(AF_INET);
  if (state.listener < 0) fail("no port for the other shards");
  state.stop = eventfd(0, EFD_CLOEXEC);
  if (state.stop < 0) fail("eventfd");
  state.address = {.token = random_token(), .host = host_name(), .port = port_of(state.listener)};
  // Ctrl-C is for the thread that measures.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  state.thread = std::thread([&state] { state.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ShardWatch::~ShardWatch() {
  eventfd_write(state_->stop, 1);
  state_->thread.join();
  for (const State::Peer& peer : state_->peers) close(peer.socket);
  close(state_->listener);
  close(state_->stop);
}

const WatchAddress& ShardWatch::address() const { return state_->address; }

void ShardWatch::tell(const std::string& cause) { state_->tell(cause); }

std::unique_ptr<WatchedShard> WatchedShard::connect(const Shard& shard, const WatchAddress& address,
                                                    const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    const int socket = connection_to(host, address.port);
    if (socket < 0) continue;
    std::unique_ptr<WatchedShard> watched(new WatchedShard(socket));
    if (watched->greet(shard, address)) return watched;
  }
  return nullptr;
}

bool WatchedShard::greet(const Shard& shard, const WatchAddress& address) {
  send_message(socket_,
               fmt::format("{} {} {}", address.token, shard.label(), end_of_this_process(shard)));
  const auto until = Clock::now() + kToAnswer;
  while (wait_for(socket_, POLLIN, until)) {
    const Connection connection = receive(socket_, received_);
    if (const auto message = take_message(received_)) {
      end_of_first_ = *message;
      send_message(socket_, kWatch);
      return true;
    }
    if (connection == Connection::closed) return false;
  }
  return false;
}

WatchedShard::~WatchedShard() { close(socket_); }

std::string WatchedShard::cause() {
  if (!cause_.empty()) return cause_;
  const Connection connection = receive(socket_, received_);
  if (const auto message = take_message(received_)) {
    cause_ = *message;
  } else if (connection == Connection::closed) {
    cause_ = end_of_first_;
  }
  return cause_;
}

void WatchedShard::done() { send_message(socket_, kDone); }

}  // namespace rtfx
