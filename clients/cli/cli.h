/*
 * The commands of the `slipway` program that call a server. Each command parses its own arguments
 * (argv[0] is the command's name), prints its output, and returns the exit status of the process: 0
 * for success, 1 if the server refused a request or a response was wrong, and 2 for invalid
 * arguments.
 */
#ifndef CL_CLI_H
#define CL_CLI_H

int cl_command_predict(int argc, const char *const *argv);
int cl_command_status(int argc, const char *const *argv);
int cl_command_metadata(int argc, const char *const *argv);
int cl_command_reload(int argc, const char *const *argv);
int cl_command_snapshot(int argc, const char *const *argv);
int cl_command_bench(int argc, const char *const *argv);

#endif
