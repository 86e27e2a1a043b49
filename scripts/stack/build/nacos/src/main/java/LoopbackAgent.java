import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import org.springframework.asm.ClassReader;
import org.springframework.asm.ClassVisitor;
import org.springframework.asm.ClassWriter;
import org.springframework.asm.Label;
import org.springframework.asm.MethodVisitor;
import org.springframework.asm.Opcodes;

/**
 * Binds to loopback whatever would bind to all interfaces: the server opens three more TCP ports and a UDP port for
 * which it has no address option. All sockets of the JDK pass through sun.nio.ch.Net.bind.
 */
public class LoopbackAgent implements ClassFileTransformer {
  private static final String TARGET = "sun/nio/ch/Net";
  private static final String BIND = "(Ljava/net/ProtocolFamily;Ljava/io/FileDescriptor;Ljava/net/InetAddress;I)V";
  private static final String ADDRESS = "java/net/InetAddress";

  public static void premain(String arguments, Instrumentation instrumentation) throws Exception {
    instrumentation.addTransformer(new LoopbackAgent(), true);
    instrumentation.retransformClasses(Class.forName(TARGET.replace('/', '.')));
  }

  @Override
  public byte[] transform(ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] bytes) {
    if (!TARGET.equals(name)) return null;
    ClassReader reader = new ClassReader(bytes);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
      @Override
      public MethodVisitor visitMethod(int access, String method, String descriptor, String signature, String[] errors) {
        MethodVisitor next = super.visitMethod(access, method, descriptor, signature, errors);
        return method.equals("bind") && descriptor.equals(BIND) ? narrowed(next) : next;
      }
    }, 0);
    return writer.toByteArray();
  }

  /** if (address.isAnyLocalAddress()) address = InetAddress.getLoopbackAddress(); */
  private static MethodVisitor narrowed(MethodVisitor next) {
    return new MethodVisitor(Opcodes.ASM9, next) {
      @Override
      public void visitCode() {
        super.visitCode();
        Label unchanged = new Label();
        visitVarInsn(Opcodes.ALOAD, 2);
        visitMethodInsn(Opcodes.INVOKEVIRTUAL, ADDRESS, "isAnyLocalAddress", "()Z", false);
        visitJumpInsn(Opcodes.IFEQ, unchanged);
        visitMethodInsn(Opcodes.INVOKESTATIC, ADDRESS, "getLoopbackAddress", "()L" + ADDRESS + ";", false);
        visitVarInsn(Opcodes.ASTORE, 2);
        visitLabel(unchanged);
        visitFrame(Opcodes.F_SAME, 0, null, 0, null);
        // A frame may not be followed by another one at the same place.
        visitInsn(Opcodes.NOP);
      }
    };
  }
}
