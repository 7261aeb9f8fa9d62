// This program loads rtfx once for many commands, because most of a start's time goes to LibTorch,
// which registers its operators.
//
// `rtfx_resident --serve N` reads requests from the socket N (SOCK_SEQPACKET). A request is JSON
// with "arguments", "folder" and "environment", and passes files for standard input, output and
// errors. A child process runs each request as the program would, and the answer is its wait
// status. With other arguments, this is rtfx itself, because isolated runs start the program anew.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/cli/commands.h"
#include "harness/machine/sudden_end.h"

namespace {

using Files = std::array<int, 3>;

struct Request {
  nlohmann::json what;
  Files files;
};

/// Receives a request, and returns false if the other end was closed.
bool receive(int socket, Request& request) {
  std::vector<char> text(1 << 20);
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Files))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(socket, &message, 0);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (size <= 0 || header == nullptr || (message.msg_flags & MSG_TRUNC) != 0) return false;
  std::memcpy(request.files.data(), CMSG_DATA(header), sizeof(Files));
  request.what = nlohmann::json::parse(text.data(), text.data() + size);
  return true;
}

/// Runs a request in the child. The child skips the destructors of LibTorch, which take a fifth of
/// a start.
[[noreturn]] void run(const Request& request) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < 3; ++i) ::dup2(request.files[static_cast<size_t>(i)], i);
  const auto folder = request.what.at("folder").get<std::string>();
  if (::chdir(folder.c_str()) != 0) ::_exit(127);
  ::clearenv();
  for (const auto& [name, value] : request.what.at("environment").items())
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  auto arguments = request.what.at("arguments").get<std::vector<std::string>>();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int code = rtfx::run_command_line(static_cast<int>(arguments.size()), argv.data());
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

int serve(int socket) {
  Request request;
  while (receive(socket, request)) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(socket);
      run(request);
    }
    for (const int file : request.files) ::close(file);
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string answer = std::to_string(status);
    if (::send(socket, answer.data(), answer.size(), 0) < 0) return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  rtfx::name_crashes();
  if (argc == 3 && std::string(argv[1]) == "--serve") return serve(std::stoi(argv[2]));
  return rtfx::run_command_line(argc, argv);
}
