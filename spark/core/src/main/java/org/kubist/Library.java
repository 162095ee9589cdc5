package org.kubist;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * The native library: it travels in the jar, is extracted once for each class loader, and its file
 * is deleted as soon as it is loaded.
 *
 * <p>The folder is that of the system property {@code kubist.native.dir}, or of the environment's
 * {@code KUBIST_NATIVE_DIR}, or the one for temporary files.
 */
final class Library {
    private Library() {}

    static void load() {
        String platform = System.getProperty("os.name") + "-" + System.getProperty("os.arch");
        String name = System.mapLibraryName("kubist_jni");
        try (InputStream inside = Library.class.getResourceAsStream("native/" + platform + "/" + name)) {
            if (inside == null) {
                throw unsupported("this jar has no native library for " + platform, null);
            }
            Path folder = folder();
            Files.createDirectories(folder);
            Path file = Files.createTempFile(folder, "kubist-", "-" + name);
            try {
                Files.copy(inside, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toAbsolutePath().toString());
            } finally {
                Files.deleteIfExists(file);
            }
        } catch (IOException error) {
            throw new KubistException(
                    KubistException.Kind.UNAVAILABLE,
                    "cannot extract the native library into " + folder() + " (-Dkubist.native.dir names another folder): "
                            + error,
                    error);
        } catch (UnsatisfiedLinkError error) {
            throw unsupported("the native library does not load on " + platform + ": " + error.getMessage(), error);
        }
    }

    private static KubistException unsupported(String message, Throwable cause) {
        return new KubistException(KubistException.Kind.UNSUPPORTED, message, cause);
    }

    private static Path folder() {
        String folder = System.getProperty("kubist.native.dir", System.getenv("KUBIST_NATIVE_DIR"));
        return Path.of(folder == null ? System.getProperty("java.io.tmpdir") : folder);
    }
}
