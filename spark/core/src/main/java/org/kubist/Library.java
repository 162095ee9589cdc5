package org.kubist;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Loads the native library from the jar, which is extracted once per class loader, and deleted after loading.
 *
 * <p>The folder is the system property {@code kubist.native.dir}, else the environment variable {@code
 * KUBIST_NATIVE_DIR}, else the folder for temporary files.
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
