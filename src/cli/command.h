/* SPDX-License-Identifier: MIT */
/*
 * command: the commands of the tool. A new one is a function and a row of the table in main.c.
 *
 * A command gets the words after `pinpool`, with "pinpool NAME" as argv[0] so that argp's messages
 * name it, and returns the exit status. It may also end the process itself (die, argp).
 */
#ifndef PINPOOL_CLI_COMMAND_H
#define PINPOOL_CLI_COMMAND_H

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* one line for `pinpool --help` */
};

/* The table ends with a row without a name. */
extern const struct command commands[];

/* NULL when there is none of that name. */
const struct command *command_find(const char *name);

/* Runs a command with argv[0] set as above. */
int command_run(const struct command *command, int argc, char **argv);

/* `pinpool --help`, on stdout. */
void show_tool_help(void);

int command_run_program(int argc, char **argv); /* pinpool run */
int command_dump(int argc, char **argv);
int command_report(int argc, char **argv);
int command_log(int argc, char **argv);
int command_ab(int argc, char **argv);
int command_help(int argc, char **argv);

#endif
