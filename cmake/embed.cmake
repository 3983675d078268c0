# cmake -DIN=FILE -DOUT=FILE.c -DNAME=NAME -P embed.cmake
# Writes a C source file that defines the array NAME with the bytes of IN, and its size as NAME_size.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include <stddef.h>\n\nextern const unsigned char ${NAME}[];\n"
     "extern const size_t ${NAME}_size;\n"
     "const unsigned char ${NAME}[] = {\n${bytes}\n};\n"
     "const size_t ${NAME}_size = sizeof ${NAME};\n")
