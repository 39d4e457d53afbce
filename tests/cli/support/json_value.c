/* SPDX-License-Identifier: MIT */
/*
 * json_value: reads one JSON value from stdin, and nothing but it, and prints what is at each path of
 * the command line, one a line. A path is names and array indices parted by dots: tiers.0.held_bytes.
 * Exit status 1 when the input is no JSON or there is nothing at a path.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char input[1 << 20];

static struct json_object *parse_input(void)
{
    const size_t length = fread(input, 1, sizeof input - 1, stdin);
    struct json_tokener *tokener = json_tokener_new();
    json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *json = json_tokener_parse_ex(tokener, input, (int)length);
    const int is_good = json_tokener_get_error(tokener) == json_tokener_success;
    json_tokener_free(tokener);
    return is_good ? json : NULL;
}

static int print_path(struct json_object *json, const char *path)
{
    char step[256];
    while (*path) {
        const size_t length = strcspn(path, ".");
        snprintf(step, sizeof step, "%.*s", (int)length, path);
        path += length + (path[length] == '.');
        if (json_object_is_type(json, json_type_array)) {
            const size_t index = strtoul(step, NULL, 10);
            if (index >= json_object_array_length(json))
                return 0;
            json = json_object_array_get_idx(json, index);
        } else if (!json_object_is_type(json, json_type_object) ||
                   !json_object_object_get_ex(json, step, &json)) {
            return 0;
        }
    }
    if (json_object_is_type(json, json_type_array) && *path == '\0')
        printf("%zu items\n", json_object_array_length(json));
    else
        puts(json ? json_object_get_string(json) : "null");
    return 1;
}

int main(int argc, char **argv)
{
    struct json_object *json = parse_input();
    if (!json)
        return 1;
    for (int i = 1; i < argc; i++)
        if (!print_path(json, argv[i]))
            return 1;
    json_object_put(json);
    return 0;
}
